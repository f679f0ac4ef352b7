"""How far a training is: an occasional diagnosis, and the rows since.

A reader may hold rows back until a later line shows what they took. They count as well, but only for the progress, the
loss and, once there are enough of them, the pace.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from nanopace.diagnosis.diagnose import diagnose
from nanopace.diagnosis.result import Diagnosis
from nanopace.live.clock_here import ClockHere
from nanopace.live.reading import Reader
from nanopace.live.status import Status
from nanopace.run import Row, Run

LEAST_S = 1.0  # between two diagnoses, and ...
SHARE = 20.0  # ... this many times what one takes: a twentieth of a core
AHEAD_ITERATIONS = 32  # a program that runs ahead of its GPU must have waited for it by then


class Standing:
    def __init__(self, reader: Reader, complete: Callable[[Run], Run]) -> None:
        self._reader, self._complete = reader, complete
        self._told: Row | None = None  # the last certain row
        self._next_s = -math.inf
        self.clock = ClockHere()
        self.last: Row | None = None
        self.last_evaluation: int | None = None  # its iteration
        self.news = False  # something has arrived since the diagnosis
        self.diagnosis: Diagnosis | None = None

    def begin_process(self) -> None:
        """Another process, whose rows may be held back for a while: what was certain belongs to the one before."""
        self.clock.begin()
        self._told = None

    def row(self, row: Row, now: float | None, *, first: bool, new_run: bool) -> None:
        """A certain row; `now` is None if it was there before watching started."""
        if new_run:
            self.diagnosis = None  # it belongs to the run before
        if first:
            self.clock.begin()
        self.last = self._told = row
        if now is not None:
            self.clock.row(row, now)

    def evaluation(self, iteration: int) -> None:
        self.last_evaluation = iteration
        self.clock.evaluation()

    def begin_live(self) -> None:
        """All of the history has been read: time for a diagnosis."""
        self._next_s = -math.inf

    @property
    def is_finished(self) -> bool:
        return self.diagnosis is not None and self.diagnosis.source.ending == "finished"

    def is_due(self, now: float) -> bool:
        return self.news and now >= self._next_s

    def diagnose(self, now: float, fewest: int = 1) -> Run | None:
        """The run so far, if it has at least `fewest` rows; updates `diagnosis`."""
        began_s, self.news = time.thread_time(), False
        run = self._reader.snapshot()
        if run is not None:
            run = self._complete(run) if run.logged.lines >= fewest else None
        if run is not None:
            self.diagnosis, self.last = diagnose(run), run.logged[-1]
            self.last_evaluation = max((each.iteration for each in run.evaluations), default=None)
            if self._told is None or self._told.last_iteration < self.last.last_iteration:
                self.clock.row(self.last, now)
        least_s = LEAST_S if self.diagnosis is not None else 0.0  # the first one comes with its row
        self._next_s = now + max(least_s, SHARE * (time.thread_time() - began_s))
        return run

    def status(self, silent_s: float | None) -> Status | None:
        """`silent_s`: time without a line, if worth mentioning."""
        diagnosis, last = self.diagnosis, self.last
        if diagnosis is None or last is None:
            return None
        iteration_s = self.clock.iteration_s if diagnosis.timed else self.clock.untimed_iteration_s
        known = self._knows_pace(last)
        return Status(diagnosis, last, self.last_evaluation, iteration_s, silent_s, pace_is_known=known)

    def _knows_pace(self, last: Row) -> bool:
        """A program runs ahead of its GPU until the first evaluation: its first rows alone do not show the pace."""
        format = self._reader.format
        certain = self._told is not None and self._told.last_iteration <= last.last_iteration
        return certain or format is None or format.row_time != "clock" or last.last_iteration >= AHEAD_ITERATIONS
