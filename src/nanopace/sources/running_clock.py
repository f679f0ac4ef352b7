"""Rows of a log with a running clock: a row's time is that since the previous row, without evaluations in between.

A clock of whole seconds shows 10 s, 11 s, 10 s for rows that all take 10.4 s, so their median is off by 4%. Rows that
its seconds cannot distinguish therefore get their mean, over at most 200 s: that is accurate to 0.5%. The time of each
row is known only to half a second, so each deviates from the mean by up to that much, in any order: the scatter shows
what the clock leaves unknown. A row that took longer than this explains keeps its time.

An evaluation is subtracted from the rows' time if its duration is known: because the trainer prints it, or because the
row before it has the same step. Otherwise, the next row contains it. So these formats declare that rows contain no
evaluation, until there is one that they do contain.
"""

from __future__ import annotations

from typing import NamedTuple

from nanopace.medians import median
from nanopace.record import replace
from nanopace.run import Metric, Row, Span
from nanopace.sources.build import RunBuilder

MOST_STEPS = 10**12
_MOST_S = 1e12
_ENOUGH = 200  # times the resolution: the most that rows averaged together may span
_MOST_WAITING = 4096  # rows
_ROUNDS = 3  # of finding the rows that are alike
_ALIKE = 2  # times the resolution: both ends of a row are known to within one of it


class _Row(NamedTuple):
    step: int
    steps: int  # since the previous row
    seconds: float
    loss: float | None
    mfu: float | None


class _Evaluation(NamedTuple):
    step: int
    train: float | None
    val: float | None
    ms: float | None
    metric: Metric
    after_row: bool  # of its own step: the next row contains it


class RunningClock:
    """Takes steps and clock times from a log, and passes rows and evaluations to the builder.

    `resolution_s` is 1 if the clock shows whole seconds, truncated, and 0 if it shows fractions. `starts_s` is what it
    showed when the first step started; None if that, and so the time of the first row, is unknown.
    """

    def __init__(self, builder: RunBuilder, *, resolution_s: float = 0.0, starts_s: float | None = 0.0) -> None:
        self._builder = builder
        self._resolution_s = resolution_s
        self._at_s = starts_s  # when the last row, or the evaluation after it, ended
        self._shown_s = starts_s or 0.0  # what the clock showed then
        self._reached = 0  # the step of the last row
        self._waiting: list[_Row | _Evaluation] = []
        self._rows_wait = False
        self._waiting_s = 0.0
        self._measured = False  # an evaluation's duration is known
        self._drawn = 1
        self._timed = False  # this run has a row with a time
        self._restarted = False
        self._begins = -1  # the step of the run's first row; -1 before it

    @property
    def _any(self) -> bool:
        return self._begins >= 0

    def restart(self, starts_s: float | None = 0.0) -> None:
        """Start another process: its clock starts again."""
        self.flush()
        if self._any:
            self._builder.begin_process(fresh=False)
        self._at_s, self._shown_s, self._restarted = starts_s, starts_s or 0.0, self._any

    def set_resolution(self, resolution_s: float) -> None:
        """From the next row on, the clock shows whole seconds, or no longer does."""
        if resolution_s != self._resolution_s:
            self.flush()
            self._resolution_s = resolution_s

    def row(self, step: int, at_s: float, loss: float | None, mfu: float | None = None) -> None:
        """A step ended when the clock showed `at_s`."""
        if not 0 <= step < MOST_STEPS or not 0 <= at_s < _MOST_S:
            return
        if self._any and step == self._reached and not self._restarted:
            return
        if self._any and step < self._reached and not self._restarted:
            self.restart(None)
        if self._restarted and step <= self._begins:
            self._builder.begin_process(fresh=True)
            self._restarted, self._begins, self._reached, self._timed = False, -1, 0, False
        if not self._any:
            self._begins = step
        if self._at_s is None or self._restarted:
            self._first(step, at_s, loss, mfu)
            return
        if self._reached == self._begins and step - self._begins < self._begins:
            # The log starts in the middle, so the number of steps that the first time covers is unknown.
            self._waiting = [each for each in self._waiting if isinstance(each, _Evaluation)]
            self._waiting_s = 0.0
        seconds = max(0.0, at_s - self._at_s)
        self._waiting.append(_Row(step, max(1, step - self._reached), seconds, loss, mfu))
        self._rows_wait, self._waiting_s = True, self._waiting_s + seconds
        self._reached, self._at_s, self._shown_s = step, at_s, at_s
        enough = self._waiting_s >= _ENOUGH * self._resolution_s or len(self._waiting) >= _MOST_WAITING
        if enough and step != self._begins:
            self.flush()

    def evaluation(
        self,
        step: int,
        val: float | None,
        *,
        at_s: float | None = None,
        ms: float | None = None,
        metric: Metric = "loss",
        train: float | None = None,
    ) -> None:
        """An evaluation after a step, which took `ms` or had ended when the clock showed `at_s`. Without a loss, it is
        of another data set, and only its time counts."""
        if not 0 <= step < MOST_STEPS or (ms is not None and not 0 <= ms < 1000 * _MOST_S):
            return
        if self._at_s is not None:
            if ms is not None:
                self._at_s += ms / 1000
            elif at_s is not None and self._any and step == self._reached and self._shown_s < at_s < _MOST_S:
                ms = 1000 * max(0.0, at_s - self._at_s)
                self._at_s = self._shown_s = at_s
        after_row = ms is None and at_s is None and self._any and step == self._reached
        self._waiting.append(_Evaluation(step, train, val, ms, metric, after_row))
        if not self._rows_wait:
            self.flush()

    def flush(self) -> None:
        """Pass on the waiting rows, and the evaluations between them."""
        rows = [each for each in self._waiting if isinstance(each, _Row)]
        alike, per_step = _alike(rows, _ALIKE * self._resolution_s)
        unknown = iter(self._unknown_s(len(alike)))
        for each in self._waiting:
            if isinstance(each, _Evaluation):
                self._evaluate(each)
                continue
            seconds = each.seconds
            if each.step in alike:
                seconds = per_step * each.steps
                seconds += min(1.0, seconds / self._resolution_s) * next(unknown)
            self._tell(each.step, seconds, each.loss, each.mfu)
        self._waiting.clear()
        self._rows_wait, self._waiting_s = False, 0.0

    def _tell(self, step: int, seconds: float, loss: float | None, mfu: float | None) -> None:
        """Pass on a row; without a time, if the clock has not advanced yet."""
        if seconds > 0:
            self._builder.row(Row(step, 1000 * seconds, loss, mfu))
            self._timed = True
        elif not self._timed:
            self._builder.untimed_row(step, loss)

    def _evaluate(self, evaluation: _Evaluation) -> None:
        step, train, val, ms, metric, after_row = evaluation
        self._measured |= ms is not None
        if self._builder.format.row_contains_evaluation == self._measured:
            self._builder.format = replace(self._builder.format, row_contains_evaluation=not self._measured)
        if val is not None:
            self._builder.evaluation(step, train, val, metric=metric, ms=ms, after_row=after_row)
        elif ms is not None:
            self._builder.span(Span("evaluation", step, ms))

    def _unknown_s(self, rows: int) -> list[float]:
        """For each row, a deviation within the clock's resolution: up to half of it, evenly spread, and in any order.
        So neither their mean nor their median is moved."""
        spread = [self._resolution_s * ((number + 0.5) / rows - 0.5) for number in range(rows)]
        for last in range(rows - 1, 0, -1):
            self._drawn = self._drawn * 16807 % (2**31 - 1)  # Park and Miller's generator: the same for the same log
            other = self._drawn % (last + 1)
            spread[last], spread[other] = spread[other], spread[last]
        return spread

    def _first(self, step: int, at_s: float, loss: float | None, mfu: float | None) -> None:
        """The first row of a process. If the start of its clock is unknown, so is its time, and it is left out."""
        self.flush()
        if self._at_s is not None:
            self._tell(step, at_s - self._at_s, loss, mfu)
        self._restarted = False
        self._reached = step
        self._at_s = self._shown_s = at_s


def _alike(rows: list[_Row], most_s: float) -> tuple[set[int], float]:
    """The steps of rows that the clock cannot distinguish, and their time per step.

    The median of whole seconds is whole itself. So the rows are also compared with the mean of those near it. A row
    during which the clock did not advance has no time of its own.
    """
    if not rows or not most_s:
        return set(), 0.0
    per_step = median([row.seconds / row.steps for row in rows])
    for _ in range(_ROUNDS):
        alike = [row for row in rows if not row.seconds or abs(row.seconds - per_step * row.steps) < most_s]
        steps = sum(row.steps for row in alike)
        per_step = sum(row.seconds for row in alike) / steps if steps else 0.0
    return {row.step for row in alike}, per_step
