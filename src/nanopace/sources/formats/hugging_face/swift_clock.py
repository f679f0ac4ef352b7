"""The elapsed time that ms-swift shows twice: as text in whole seconds, and as the mean speed of all steps so far.

"elapsed_time": "31m 14s", "train_speed(s/it)": 1.874359            at step 1000: 1874.359 s
"elapsed_time": "1m 42s", "train_speed(iter/s)": 0.195626           at step 20: 102.236 s
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_SPEED = re.compile(r"\d{1,6}\.\d{1,6}", re.ASCII)
_ROUNDING = 0.5e-6  # of a speed that is printed in full
_MOST_WRONG_S = 0.05
_TOGETHER_S = 1.5  # the text may be rounded or truncated


class SwiftClock:
    """Reads the speed, once one has shown that it is printed in full: a console may show four digits only."""

    def __init__(self) -> None:
        self._in_full = False

    def read(self, entry: Mapping[str, object], step: int | None, elapsed_s: float | None) -> float | None:
        """The seconds so far, or None if the text is the better source."""
        slow, fast = str(entry.get("train_speed(s/it)", "")), str(entry.get("train_speed(iter/s)", ""))
        printed = slow or fast
        if not step or elapsed_s is None or not _SPEED.fullmatch(printed) or not (speed := float(printed)):
            return None
        self._in_full |= len(printed.replace(".", "").lstrip("0")) > 4
        at_s = step * speed if slow else step / speed
        exact = at_s * _ROUNDING / speed <= _MOST_WRONG_S
        return at_s if self._in_full and exact and abs(at_s - elapsed_s) <= _TOGETHER_S else None
