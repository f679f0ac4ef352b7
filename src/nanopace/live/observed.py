"""A builder that tells of each row when it is read: what it contains, and whether a process began with it."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from nanopace.incidents import LossSpike
from nanopace.run import Ending, Row, Span
from nanopace.sources.build import RunBuilder


class Seen(NamedTuple):
    """A row, and what is known of it at that moment."""

    row: Row
    evaluation: bool  # its time contains one
    checkpoint: bool
    first: bool  # of a process
    new_run: bool
    back_from: int | None  # where the run had come to, if this row goes back

    @property
    def plain(self) -> bool:
        return not (self.evaluation or self.checkpoint or self.first)


class Observer(Protocol):
    """Who is told."""

    def saw_row(self, seen: Seen) -> None: ...

    def saw_evaluation(self, iteration: int) -> None: ...

    def saw_span(self, span: Span) -> None: ...

    def saw_spike(self, spike: LossSpike) -> None: ...

    def saw_skipped(self, iteration: int) -> None: ...

    def saw_ending(self, ending: Ending) -> None: ...


class ObservedBuilder(RunBuilder):
    """Any format's reader can be given one: it calls what every builder has."""

    def __init__(self, name: str, observer: Observer) -> None:
        super().__init__(name)
        self._observer = observer

    def row(self, row: Row, *, restarted: bool = False) -> None:
        draft, setbacks = self._draft, len(self._draft._setbacks)
        reached = draft.rows.last_iteration[-1] if draft.rows else None
        repeated = reached == row.iteration and draft.rows.ms[-1] == row.ms
        contains = self.format.row_contains_evaluation
        inside = {row.iteration, *self._after_row}
        evaluation = contains and any(each.iteration in inside for each in self._pending_evals)
        checkpoint = contains and any(each.iteration == row.iteration for each in self._pending_saves)
        super().row(row, restarted=restarted)
        if repeated:
            return
        new_run = self._draft is not draft
        first = new_run or reached is None or len(self._draft._setbacks) > setbacks
        back = reached if first and not new_run and reached is not None and row.iteration <= reached else None
        self._observer.saw_row(Seen(row, evaluation, checkpoint, first, new_run or reached is None, back))

    def fold_beyond(self, most: int) -> None:
        """Fold rows that are alike where more than these stand for one line each."""
        self._draft.fold_beyond(most)

    def evaluation(self, iteration: int, train: float | None, val: float | None, **more: Any) -> None:
        super().evaluation(iteration, train, val, **more)
        self._observer.saw_evaluation(iteration)

    def span(self, span: Span) -> None:
        super().span(span)
        self._observer.saw_span(span)

    def spike(self, spike: LossSpike) -> None:
        super().spike(spike)
        self._observer.saw_spike(spike)

    def skipped(self, iteration: int) -> None:
        super().skipped(iteration)
        self._observer.saw_skipped(iteration)

    def ending(self, ending: Ending) -> None:
        super().ending(ending)
        self._observer.saw_ending(ending)
