"""W&B's `_runtime`, which in some versions is not that of its own record.

`_runtime` does not count while the machine sleeps, so it is the better clock for rows. But W&B 0.24 and 0.25, for
example, write it when the next record begins: each record then has the time of the one after it. `_timestamp` is always
that of the record itself. So a step of one clock shows which step of the other belongs to it.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from itertools import pairwise

from nanopace.medians import median

_FEWEST = 3  # steps from one record to the next
_CLEARLY = 0.1  # of the other difference


def in_time(runtimes: Sequence[float], stamps: Sequence[float]) -> array[float]:
    """The runtime of each record when it was logged."""
    own = array("d", runtimes)
    if len(own) < _FEWEST + 2 or any(map(math.isnan, (*own, *stamps))):
        return own
    ran = [after - before for before, after in pairwise(own)]
    passed = [after - before for before, after in pairwise(stamps)]
    as_own = median([abs(one - other) for one, other in zip(ran, passed, strict=True)])
    as_next = median([abs(one - other) for one, other in zip(ran, passed[1:], strict=False)])
    if as_next >= _CLEARLY * as_own:
        return own
    return array("d", [max(0.0, own[0] - passed[0]), *own[:-1]])
