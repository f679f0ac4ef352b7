"""Timing by our own clock: the time per iteration including everything between the rows, and whether rows arrive as
they are printed or in blocks."""

from __future__ import annotations

from collections.abc import Sequence

from nanopace.run import Row

_EVALUATIONS = 2  # average the time per iteration over this many, if there are any
_UNTIMED_S, _UNTIMED_ROWS = 30.0, 5  # minimum for the average in a log without times
_BLOCK_ROWS, _BLOCK_S = 10, 5.0  # this many rows at once that took this long: the trainer's output is buffered


class ClockHere:
    def __init__(self) -> None:
        self._blocks = 0
        self.begin()

    def begin(self) -> None:
        """Start over for another process."""
        self._first: tuple[float, int] | None = None  # when a row arrived, and its iteration
        self._last: tuple[float, int] | None = None
        self._rows = self._evaluations = 0

    def row(self, row: Row, now: float) -> None:
        if self._first is None or self._first[0] == now:
            self._first = now, row.last_iteration  # of rows that arrive together, use the last: it is the newest
            self._rows = self._evaluations = 0
        self._last = now, row.last_iteration
        self._rows += 1

    def evaluation(self) -> None:
        self._evaluations += 1

    @property
    def iteration_s(self) -> float | None:
        """The time per iteration, over at least two evaluations."""
        return self._mean_s() if self._evaluations >= _EVALUATIONS else None

    @property
    def untimed_iteration_s(self) -> float | None:
        """The same for a log without any times, over at least half a minute."""
        if self._first is None or self._last is None or self._rows <= _UNTIMED_ROWS:
            return None
        return self._mean_s() if self._last[0] - self._first[0] >= _UNTIMED_S else None

    def blocks(self, rows: Sequence[Row], lines: int, gap_s: float) -> bool:
        """Whether these rows are the second block: they took seconds, but their lines arrived at once after a gap."""
        if min(len(rows), lines) < _BLOCK_ROWS or min(gap_s, sum(row.ms for row in rows) / 1000) < _BLOCK_S:
            return False
        self._blocks += 1
        return self._blocks == 2

    def _mean_s(self) -> float | None:
        if self._first is None or self._last is None or self._last[1] <= self._first[1]:
            return None
        return (self._last[0] - self._first[0]) / (self._last[1] - self._first[1])
