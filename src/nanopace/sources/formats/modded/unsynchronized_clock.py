"""Derives the time of each row from a running clock that does not wait for the GPU.

The clock of a row does not wait for the GPU; that of an evaluation does. So right after an evaluation, the program runs
ahead: its first rows are too short, and the missing time appears as a wait at the next evaluation. That wait is given
back to them. Any excess is shared by all rows since the last evaluation. So between evaluations, the rows add up to
what the clock shows.

The clock is printed in whole milliseconds. Neighbours that differ by no more than that get their mean; otherwise, steps
of 32.4 ms would be rows of 32 and 33.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from nanopace.medians import median
from nanopace.run import Row

_MOST_HELD = 1024  # rows that wait for an evaluation
_AHEAD = 16  # rows in which the program gets ahead of the GPU
_ROUNDING_MS = 1.0  # between two rows that take the same time
_MOST_ALIKE = 32  # rows


class _Held:
    __slots__ = ("loss", "ms", "step", "steps")

    def __init__(self, step: int, steps: int, ms: float, loss: float | None) -> None:
        self.step, self.steps, self.ms, self.loss = step, steps, ms, loss


class UnsynchronizedClock:
    """Calls `emit` with each row and the time of one step."""

    def __init__(self, emit: Callable[[Row], None]) -> None:
        self._emit = emit
        self._held: list[_Held] = []
        self.begin(0)

    def begin(self, step: int) -> None:
        """Start another process: its clock starts at 0, and `step` is the last step before it."""
        self._settle(0.0)
        self.step = step
        self.at_ms = 0.0
        self.left_out_ms = 0.0  # what the clock showed when it was reset to 0
        self.set_back_at = 0  # the last step before that
        self._before_ms = math.inf  # time per step in the last rows emitted
        self.waits = 0
        self.waited_ms = 0.0

    def row(self, step: int, at_ms: float, loss: float | None) -> None:
        """Take the clock after a step. Steps must rise."""
        if at_ms < self.at_ms:
            self._settle(0.0)
            self.left_out_ms, self.set_back_at = self.left_out_ms + self.at_ms, self.step
            self.at_ms = 0.0
        self._held.append(_Held(step, max(1, step - self.step), at_ms - self.at_ms, loss))
        self.step, self.at_ms = step, at_ms
        if len(self._held) >= _MOST_HELD:
            self._settle(0.0)

    def wait(self, at_ms: float) -> None:
        """Take the clock when the GPU has finished the last step."""
        wait_ms = max(0.0, at_ms - self.at_ms)
        if self._held:
            self.waits += 1
            self.waited_ms += wait_ms
            self.at_ms += wait_ms
        self._settle(wait_ms)

    def finish(self) -> None:
        self._settle(0.0)

    def _settle(self, wait_ms: float) -> None:
        if wait_ms > 0 and self._held:
            self._give_back(wait_ms)
        _even_out(self._held)
        if self._held:
            self._before_ms = median(each.ms / each.steps for each in self._held[-_AHEAD:])
        for each in self._held:
            self._emit(Row(each.step, each.ms / each.steps, each.loss))
        self._held.clear()

    def _give_back(self, wait_ms: float) -> None:
        # If steps become longer just here, the time of earlier rows is closer to the truth.
        usual_ms = min(self._before_ms, median(each.ms / each.steps for each in self._held[:_AHEAD]))
        for each in self._held[:_AHEAD]:
            given = min(wait_ms, max(0.0, usual_ms * each.steps - each.ms))
            each.ms += given
            wait_ms -= given
        share = wait_ms / sum(each.steps for each in self._held)
        for each in self._held:
            each.ms += share * each.steps


def _even_out(rows: list[_Held]) -> None:
    """Average neighbouring one-step rows that may differ only by rounding."""
    alike: list[_Held] = []
    low = high = 0.0
    for each in rows:
        low, high = (min(low, each.ms), max(high, each.ms)) if alike else (each.ms, each.ms)
        if each.steps > 1 or high - low > _ROUNDING_MS or len(alike) == _MOST_ALIKE:
            _share(alike)
            alike, low, high = [], each.ms, each.ms
        alike.append(each)
    _share(alike)


def _share(rows: list[_Held]) -> None:
    if len(rows) > 1:
        mean_ms = sum(each.ms for each in rows) / len(rows)
        for each in rows:
            each.ms = mean_ms
