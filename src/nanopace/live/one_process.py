"""Keep the rows of one process if several print to the same pipe; decided within a few rows, because nothing may wait.

`sources.processes.interleaved` looks at hundreds of rows before it decides. Here, a row that goes back is held together
with the next few. If they continue from there, a process was restarted; if one continues from where the run was, or if
they repeat each other, several processes print. From then on, only the first row of each iteration counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from nanopace.sources.processes.rank_prefixes import BEGINNING

_HELD = 4  # rows needed to decide
_GONE = 50  # consecutive rows left out: the process that printed the others is gone


class OneProcess:
    """Takes each line and yields those that are decided."""

    def __init__(self, row_start: str) -> None:
        self._row = re.compile(row_start, re.ASCII)
        self._first = self._last = -1
        self._rows = 0  # until one went back
        self._stride = 1  # between two rows
        self._text = ""  # of the last row
        self._several = False
        self._held: list[tuple[str, int | None]] = []
        self._left_out = 0  # consecutive rows
        self.rows_of_others = 0

    def feed(self, line: str) -> Iterator[str]:
        found = self._row.search(line, 0, BEGINNING)
        iteration = None if found is None else int(found[1])
        if self._held:
            self._held.append((line, iteration))
            yield from self._decide()
        elif found is None or iteration is None:
            yield line
        elif iteration > self._last or line[found.start() :] == self._text:  # two handlers may print the same
            self._first = iteration if self._last < 0 else self._first
            self._rows += 1
            self._stride = max(1, iteration - self._last) if self._last >= 0 else 1
            self._last, self._text, self._left_out = iteration, line[found.start() :], 0
            yield line
        elif self._several and self._left_out < _GONE:
            self._left_out += 1
            self.rows_of_others += 1
        else:
            self._several, self._left_out = False, 0
            self._held.append((line, iteration))

    def finish(self) -> Iterator[str]:
        """No more lines: what is held is a restart."""
        yield from self._release()

    def _decide(self) -> Iterator[str]:
        rows = [iteration for _, iteration in self._held if iteration is not None]
        begins = rows[0] == 0 or (rows[0] == self._first and self._rows > _HELD)  # where the log did: another run
        if not begins and any(self._leaps(before, after) for before, after in pairwise(rows)):
            held, self._held, self._several = self._held, [], True
            for line, iteration in held:
                if iteration is None or iteration > self._last:
                    self._last = self._last if iteration is None else iteration
                    yield line
                else:
                    self.rows_of_others += 1
        elif len(rows) >= _HELD or begins:
            yield from self._release()

    def _leaps(self, before: int, after: int) -> bool:
        """Whether two rows are not neighbours in one process: the second repeats, or continues from where the run
        was."""
        return after <= before or (after > self._last and after - before > self._stride)

    def _release(self) -> Iterator[str]:
        held, self._held = self._held, []
        for line, iteration in held:
            self._last = self._last if iteration is None else iteration
            yield line
