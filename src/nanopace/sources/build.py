"""From what a reader understands, line by line, to Runs.

Readers of formats know lines; they do not know history. The builder does: it links an evaluation to the row whose
time contains it, notices when a process was restarted or when another run begins in the same file, and sees to it
that the iterations of a Run only ever rise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol, TypeVar

from nanopace.record import replace
from nanopace.run import (
    Because,
    Checkpoint,
    Ending,
    Evaluation,
    Fact,
    FactValue,
    Format,
    GpuUse,
    Metric,
    Origin,
    Restart,
    Row,
    Rows,
    Run,
    Span,
)
from nanopace.sources.fold import Mixture, divide, rows_across, split_rows


class LineReader(Protocol):
    """A format's reader. It is made with a RunBuilder (and calls its `describe`), then fed every line of the log."""

    format: Format

    def feed(self, line: str) -> bool:
        """One line, cleaned of terminal debris and without its end. True if it was understood."""

    def feed_cut(self, line: str) -> bool:
        """The last line of a log that does not end with a newline: to be used only if it is certainly whole."""

    def finish(self) -> None:
        """There are no more lines: hand over what was held back."""


class _Draft:
    """A Run that still grows."""

    def __init__(self) -> None:
        self.facts: dict[str, Fact] = {}
        self.rows = Rows()
        self.evaluations: dict[tuple[int, Metric], Evaluation] = {}
        self.checkpoints: dict[int, Checkpoint] = {}
        self.restarts: list[Restart] = []
        self.spans: list[Span] = []
        self.wall_ms: float | None = None
        self.gpu_use: GpuUse | None = None
        self.ending: Ending | None = None


class RunBuilder:
    """Takes what happened in the order of the log; `finish` gives the Runs, one or several."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.evaluations_seen = 0
        self._format: Format = "nanogpt"
        self._row_contains_evaluation = True
        self._mfu_smoothing: float | None = None
        self._evaluations_in_order = True
        self._done: list[_Draft] = []
        self._draft = _Draft()
        self._waiting: list[Evaluation] = []  # since the last row: does the next one contain them?
        self._waiting_saves: list[Checkpoint] = []
        self._began = False  # a process announced itself and has no row yet
        self._fresh: bool | None = None  # it starts from scratch (True), from a checkpoint (False), or does not say
        self._failed = False  # an attempt ended before its first row
        self._next_facts: dict[str, Fact] = {}
        self._next_spans: list[Span] = []

    def describe(
        self,
        format: Format,
        *,
        row_contains_evaluation: bool = True,
        mfu_smoothing: float | None = None,
        evaluations_in_order: bool = True,
    ) -> None:
        """What holds for every run of this format. `evaluations_in_order`: that of an iteration precedes its row."""
        self._format = format
        self._row_contains_evaluation = row_contains_evaluation
        self._mfu_smoothing = mfu_smoothing
        self._evaluations_in_order = evaluations_in_order

    # --- what readers call -------------------------------------------------------------------------------------------

    def begin_process(self, *, fresh: bool | None = None) -> None:
        """A process introduces itself. May be called by each of its header lines; they count once."""
        if self._draft.rows and not self._began:
            self._keep_waiting()
            self._began, self._fresh = True, None
            self._next_facts, self._next_spans = {}, []
        elif self._failed:
            self._facts().clear()
        self._failed = False
        if fresh is not None:
            self._fresh = fresh

    def fact(self, name: str, value: FactValue, origin: Origin = "log", because: Because | None = None) -> None:
        """A knob or a derived fact. The last one said counts: a flag comes after the config that it overrides."""
        self._facts()[name] = Fact(value, origin, because)

    def row(self, row: Row, *, restarted: bool = False) -> None:
        """A line with a time. `restarted`: it shows by itself that its process is a new one."""
        rows = self._draft.rows
        if (
            rows
            and not self._waiting
            and not self._began
            and rows.last_iteration[-1] == row.iteration == row.last_iteration
            and rows[-1] == row
        ):
            return  # the same line twice: two log handlers, or a log pasted twice
        self._settle(row.iteration, restarted)
        draft = self._draft
        index = len(draft.rows)
        draft.rows.append(row)
        draft.ending = None
        self._keep_waiting(row.iteration, index)

    def mixture(self, folded: Mixture) -> None:
        """A stretch of rows with the evaluations among them. Nothing is waiting, and it goes on from the last row."""
        draft = self._draft
        start = len(draft.rows)
        for row in folded.rows:
            draft.rows.append(row)
        draft.ending = None
        for evaluation in folded.evaluations:
            row_of = None if evaluation.row is None else start + evaluation.row
            draft.evaluations[evaluation.iteration, evaluation.metric] = replace(evaluation, row=row_of)
            self.evaluations_seen += evaluation.count
        for save in folded.checkpoints:
            draft.checkpoints[save.iteration] = replace(save, row=None if save.row is None else start + save.row)

    def evaluation(
        self,
        iteration: int,
        train: float | None,
        val: float | None,
        *,
        metric: Metric = "loss",
        ms: float | None = None,
        val_error: float | None = None,
        train_steps: int | None = None,
    ) -> None:
        """An evaluation; the row that contains it is found by its iteration."""
        self.evaluations_seen += 1
        if self._waiting and iteration < self._waiting[-1].iteration and not self._began:
            self._keep_waiting()  # the earlier ones belong to what came before
        self._waiting.append(
            Evaluation(iteration, train, val, metric, ms=ms, val_error=val_error, train_steps=train_steps)
        )

    def checkpoint(
        self,
        iteration: int | None = None,
        path: str | None = None,
        *,
        ms: float | None = None,
        background_ms: float | None = None,
    ) -> None:
        """A checkpoint; without an iteration it belongs to the evaluation just before it."""
        if iteration is None:
            if not self._waiting:
                return  # the beginning of the log is cut off
            iteration = self._waiting[-1].iteration
        self._waiting_saves.append(Checkpoint(iteration, path, ms=ms, background_ms=background_ms))

    def span(self, span: Span) -> None:
        """A phase that the trainer measured itself."""
        (self._next_spans if self._began else self._draft.spans).append(span)

    def wall_ms(self, ms: float) -> None:
        """One process by the trainer's own clock; those of a run's processes add up."""
        self._draft.wall_ms = (self._draft.wall_ms or 0.0) + ms

    def gpu_use(self, use: GpuUse | None) -> None:
        """Of the run so far, over all its processes; None is unknown."""
        self._draft.gpu_use = use

    def ending(self, ending: Ending) -> None:
        """How the process ended; forgotten if rows follow."""
        if self._began or not self._draft.rows:
            self._failed = True
        elif self._draft.ending in (None, "error"):  # a traceback announces itself before it says what it is
            self._draft.ending = ending

    def finish(self) -> list[Run]:
        """All runs that have rows."""
        if not self._began:
            self._keep_waiting()
        drafts = [draft for draft in (*self._done, self._draft) if draft.rows]
        return [self._run(draft, number) for number, draft in enumerate(drafts, start=1)]

    # --- history -----------------------------------------------------------------------------------------------------

    def _facts(self) -> dict[str, Fact]:
        return self._next_facts if self._began else self._draft.facts

    def _settle(self, iteration: int, restarted: bool) -> None:
        """Before a row is added: does it go on, was the process restarted, or is this another run?"""
        draft = self._draft
        if not draft.rows:
            return
        if iteration > draft.rows.last_iteration[-1] and not (self._waiting or self._began or restarted):
            return  # nearly always
        first, last = draft.rows.iteration[0], draft.rows.last_iteration[-1]
        start = iteration
        if self._evaluations_in_order:
            start = min(
                [iteration, *(e.iteration for e in self._waiting if e.iteration < last or self._began or restarted)]
            )
        back = start <= last
        another = start == 0 or (back and self._fresh is True) or (start < first and self._fresh is not False)
        if another:
            self._done.append(draft)
            self._draft = _Draft()
        elif back or restarted or (self._began and self._fresh is False):
            self._restart(start)
        self._draft.facts.update(self._next_facts)
        self._draft.spans.extend(self._next_spans)
        self._began, self._fresh, self._failed = False, None, False
        self._next_facts, self._next_spans = {}, []

    def _restart(self, iteration: int) -> None:
        """Move what will be done again out of the way."""
        draft = self._draft
        reached = max([draft.rows.last_iteration[-1], *(number for number, _ in draft.evaluations)])
        kept, lost = split_rows(draft.rows, iteration)
        divided = rows_across(draft.rows, iteration)
        places = {index: len(kept) - len(divided) + place for place, index in enumerate(divided)}
        draft.rows = kept
        # Those of the very iteration that it goes on from stay, unless they are inside of a row that is done again.
        stays = iteration if self._row_contains_evaluation else iteration + 1
        evaluations = (_before(each, stays, places) for each in draft.evaluations.values())
        checkpoints = (_before(each, stays, places) for each in draft.checkpoints.values())
        draft.evaluations = {(each.iteration, each.metric): each for each in evaluations if each is not None}
        draft.checkpoints = {each.iteration: each for each in checkpoints if each is not None}
        draft.restarts = [replace(restart, row=min(restart.row, len(kept))) for restart in draft.restarts]
        draft.restarts.append(Restart(len(kept), iteration, reached, lost))

    def _keep_waiting(self, iteration: int | None = None, index: int | None = None) -> None:
        """Settle the evaluations and checkpoints since the last row; those of `iteration` are inside row `index`."""
        if not self._row_contains_evaluation:
            index = None
        for evaluation in self._waiting:
            row = index if evaluation.iteration == iteration else None
            self._draft.evaluations[evaluation.iteration, evaluation.metric] = (
                evaluation if row is None else replace(evaluation, row=row)
            )
        for save in self._waiting_saves:
            row = index if save.iteration == iteration else None
            self._draft.checkpoints[save.iteration] = save if row is None else replace(save, row=row)
        self._waiting.clear()
        self._waiting_saves.clear()

    def _run(self, draft: _Draft, number: int) -> Run:
        return Run(
            name=self.name if number == 1 else f"{self.name} #{number}",
            format=self._format,
            rows=draft.rows,
            evaluations=tuple(draft.evaluations[key] for key in sorted(draft.evaluations)),
            checkpoints=tuple(draft.checkpoints[key] for key in sorted(draft.checkpoints)),
            restarts=tuple(draft.restarts),
            spans=tuple(draft.spans),
            facts=MappingProxyType(draft.facts),
            row_contains_evaluation=self._row_contains_evaluation,
            mfu_smoothing=self._mfu_smoothing,
            wall_ms=draft.wall_ms,
            gpu_use=draft.gpu_use,
            ending=draft.ending,
        )


Event = TypeVar("Event", Evaluation, Checkpoint)


def _before(event: Event, iteration: int, places: Mapping[int, int]) -> Event | None:
    """What is left of it, or of those that it stands for, before an iteration; `places` are those of divided rows."""
    if event.iteration < iteration:
        return event
    if event.first_iteration >= iteration:
        return None
    count, last, _ = divide(event.first_iteration, event.iteration, event.count, iteration)
    row = None if event.row is None else places[event.row]
    left = replace(event, iteration=last, count=count, row=row)
    if isinstance(left, Evaluation) and left.lowest is not None and left.lowest[0] > last:
        return replace(left, lowest=None)
    return left


def kept_loss(loss: float | None) -> float | None:
    """A loss of nan or inf is kept as infinity: "no loss was printed" and "the loss was lost" stay apart."""
    return loss if loss is None or math.isfinite(loss) else math.inf
