"""A builder that reports each row as it is read: what it contains, and whether a process started with it."""

from __future__ import annotations

from copy import copy
from typing import Any, NamedTuple, Protocol

from nanopace.incidents import LossSpike
from nanopace.record import replace
from nanopace.run import Ending, Row, Span
from nanopace.sources.build import RunBuilder
from nanopace.sources.draft import Details, Drafts


class Seen(NamedTuple):
    """A row, and what is known about it at that moment."""

    row: Row
    evaluation: bool  # contained in its time
    checkpoint: bool
    first: bool  # of a process
    new_run: bool
    back_from: int | None  # how far the run had come, if this row goes back
    timed: bool = True  # the log has its time

    @property
    def plain(self) -> bool:
        return not (self.evaluation or self.checkpoint or self.first)


class Observer(Protocol):
    """Receives the reports."""

    def saw_process(self) -> None: ...

    def saw_row(self, seen: Seen) -> None: ...

    def saw_evaluation(self, iteration: int) -> None: ...

    def saw_span(self, span: Span) -> None: ...

    def saw_spike(self, spike: LossSpike) -> None: ...

    def saw_skipped(self, iteration: int) -> None: ...

    def saw_ending(self, ending: Ending) -> None: ...


class ObservedBuilder(RunBuilder):
    """Works with the reader of any format, because it has the interface of every builder."""

    def __init__(self, name: str, observer: Observer) -> None:
        super().__init__(name)
        self._observer: Observer | None = observer

    def twin(self) -> ObservedBuilder:
        """A copy without an observer, so that feeding it changes nothing here. It has the run being read."""
        twin = copy(self)
        twin._observer = None
        twin._draft, twin._done = self._draft.twin(), Drafts()
        twin._next = Details()
        twin._next.merge(self._next)
        for name in ("_pending_evals", "_pending_saves", "_after_row", "_rollbacks"):
            setattr(twin, name, copy(getattr(self, name)))
        return twin

    def begin_process(self, *, fresh: bool | None = None) -> None:
        began = self._began
        super().begin_process(fresh=fresh)
        if self._began and not began and self._observer is not None:
            self._observer.saw_process()

    def _append(self, row: Row, *, restarted: bool = False, timed: bool = True) -> None:
        draft, setbacks = self._draft, len(self._draft._setbacks)
        rows, reached = len(draft.rows), draft.rows.last_iteration[-1] if draft.rows else None
        contains = self.format.row_contains_evaluation
        inside = {row.iteration, *self._after_row}
        evaluation = contains and any(each.iteration in inside for each in self._pending_evals)
        checkpoint = contains and any(each.iteration == row.iteration for each in self._pending_saves)
        super()._append(row, restarted=restarted, timed=timed)
        new_run = self._draft is not draft
        first = new_run or reached is None or len(self._draft._setbacks) > setbacks
        if self._observer is None or not (timed or first or len(draft.rows) > rows):
            return  # an untimed row among timed ones
        back = reached if first and not new_run and reached is not None and row.iteration <= reached else None
        new_run |= reached is None
        if self.format.row_time == "all" and reached is not None and row.iteration > reached:
            row = replace(row, ms=row.ms / (row.iteration - reached))  # all reported times are per iteration
        self._observer.saw_row(Seen(row, evaluation, checkpoint, first, new_run, back, timed))

    def fold_beyond(self, most: int) -> None:
        """Fold similar rows if there are more than `most` single ones."""
        self._draft.fold_beyond(most)

    def evaluation(self, iteration: int, train: float | None, val: float | None, **more: Any) -> None:
        super().evaluation(iteration, train, val, **more)
        if self._observer is not None:
            self._observer.saw_evaluation(iteration)

    def span(self, span: Span) -> None:
        super().span(span)
        if self._observer is not None:
            self._observer.saw_span(span)

    def spike(self, spike: LossSpike) -> None:
        super().spike(spike)
        if self._observer is not None:
            self._observer.saw_spike(spike)

    def skipped(self, iteration: int) -> None:
        super().skipped(iteration)
        if self._observer is not None:
            self._observer.saw_skipped(iteration)

    def ending(self, ending: Ending, at: int | None = None) -> None:
        super().ending(ending, at)
        if self._observer is not None:
            self._observer.saw_ending(ending)
