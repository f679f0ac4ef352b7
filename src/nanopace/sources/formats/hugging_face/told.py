"""Passes a console's rows and evaluations to the builder, in the order of their steps."""

from __future__ import annotations

from collections import deque

from nanopace.sources.build import RunBuilder
from nanopace.sources.formats.hugging_face.progress import Progress
from nanopace.sources.running_clock import MOST_STEPS, RunningClock

_ROWS_OF_BAR = 100


class Told:
    """Evaluations before the first row wait for it: the bar may still yield rows before them."""

    def __init__(self, builder: RunBuilder) -> None:
        self._builder = builder
        self._clock = RunningClock(builder, resolution_s=1.0)
        self._has_rows = False  # in this process
        self.nothing = True  # no process has a row
        self._early: deque[tuple[int, float | None, float | None]] = deque()
        self.evaluation_ms = 0.0

    def restart(self) -> None:
        self.flush()
        self._clock.restart()
        self._has_rows = False

    def flush(self) -> None:
        self._evaluate_early(MOST_STEPS)
        self._clock.flush()

    def row(self, step: int, at_s: float | None, loss: float | None, *, has_fractions: bool = False) -> None:
        self._evaluate_early(step)
        self._has_rows, self.nothing = True, False
        if at_s is None:
            self._builder.untimed_row(step, loss)
            return
        self._clock.set_resolution(0.0 if has_fractions else 1.0)
        self._clock.row(step, at_s, loss)
        if not has_fractions:
            self._builder.caveat("whole_seconds")

    def evaluation(self, step: int, val: float | None, ms: float | None) -> None:
        if not self._has_rows:
            self._early.append((step, val, ms))
            return
        self.evaluation_ms += ms or 0.0
        self._clock.evaluation(step, val, ms=ms)

    def rows_of_bar(self, training: Progress) -> None:
        """Make rows from the bar, if there are no others."""
        if self._has_rows:
            return
        self._builder.fact("max_iters", training.total)
        between = max(1, training.total // _ROWS_OF_BAR)
        for step in range(between, min(training.step, training.total) + 1, between):
            if (at_s := training.ended_s(step)) is not None:
                self.row(step, at_s, None)

    def _evaluate_early(self, before: int) -> None:
        self._has_rows = True
        while self._early and self._early[0][0] < before:
            self.evaluation(*self._early.popleft())
