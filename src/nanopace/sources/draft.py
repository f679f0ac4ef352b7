"""A Run that still grows, and what becomes of it when a part of it is done again.

Iterations of a Run only ever rise. Where a process goes on from a checkpoint, or goes back to one, the rows since then
are moved out of the way; what they took is not forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TypeVar

from nanopace.incidents import LossSpike, MicroBatch, Note, RankLag
from nanopace.record import replace
from nanopace.run import (
    Checkpoint,
    Ending,
    Evaluation,
    Fact,
    Format,
    GpuUse,
    Metric,
    Restart,
    Rollback,
    Rows,
    Run,
    Span,
    Stage,
    Unread,
)
from nanopace.sources.fold import divide, rows_across, split_rows


class Told:
    """What a process says beside its rows. Only its first row shows which run it belongs to."""

    def __init__(self) -> None:
        self.facts: dict[str, Fact] = {}
        self.spans: list[Span] = []
        self.micro_batches: list[MicroBatch] = []
        self.notes: list[Note] = []
        self.watches_loss = False
        self.stage: Stage | None = None

    def take(self, other: Told) -> None:
        self.facts.update(other.facts)
        self.spans += other.spans
        self.micro_batches += other.micro_batches
        self.notes += other.notes
        self.watches_loss |= other.watches_loss
        self.stage = other.stage or self.stage


class Draft(Told):
    """A run so far."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = Rows()
        self.evaluations: dict[tuple[int, Metric], Evaluation] = {}
        self.checkpoints: dict[int, Checkpoint] = {}
        self.restarts: list[Restart] = []
        self.rollbacks: list[Rollback] = []
        self.skipped: list[int] = []
        self.spikes: list[LossSpike] = []
        self.rank_lags: tuple[RankLag, ...] = ()
        self.wall_ms: float | None = None
        self.gpu_use: GpuUse | None = None
        self.ending: Ending | None = None
        self.told_training_s: float | None = None
        self.told_tokens: int | None = None
        self.untimed: dict[Stage, int] = {}
        self.unread: Unread | None = None

    def evaluate(self, evaluation: Evaluation) -> None:
        """Of an iteration that is evaluated again the later one counts, and the earlier one took its time."""
        key = evaluation.iteration, evaluation.metric
        before = self.evaluations.get(key)
        if before is not None and before.ms is not None and before != evaluation:
            self.spans.append(Span("evaluation", before.iteration, before.ms))
        self.evaluations[key] = evaluation

    def restart(self, iteration: int, row_contains_evaluation: bool) -> None:
        """What was skipped or stood out since then will be told again: the data is the same."""
        reached, lost, beside_ms = self._set_back(iteration, row_contains_evaluation)
        self.skipped = [each for each in self.skipped if each < iteration]
        self.spikes = [each for each in self.spikes if each.iteration < iteration]
        self.restarts.append(Restart(len(self.rows), iteration, reached, lost, beside_ms))

    def roll_back(self, rollback: Rollback, row_contains_evaluation: bool) -> None:
        if self.rows:
            _, lost, beside_ms = self._set_back(rollback.iteration, row_contains_evaluation)
            rollback = replace(rollback, lost=lost, beside_ms=beside_ms)
        self.end_with(rollback)

    def end_with(self, rollback: Rollback) -> None:
        """Nothing was done again."""
        self.rollbacks.append(replace(rollback, row=len(self.rows)))

    def _set_back(self, iteration: int, row_contains_evaluation: bool) -> tuple[int, Rows, float]:
        """Move what will be done again out of the way: how far it had come, its rows, and what was beside them."""
        reached = max([self.rows.last_iteration[-1], *(number for number, _ in self.evaluations)])
        kept, lost = split_rows(self.rows, iteration)
        divided = rows_across(self.rows, iteration)
        places = {index: len(kept) - len(divided) + place for place, index in enumerate(divided)}
        self.rows = kept
        # Those of the very iteration that it goes on from stay, unless they are inside of a row that is done again.
        stays = iteration if row_contains_evaluation else iteration + 1
        beside: list[Evaluation | Checkpoint] = [*self.evaluations.values(), *self.checkpoints.values()]
        beside_ms = sum(each.ms or 0.0 for each in beside if each.iteration >= stays)
        evaluations = (_before(each, stays, places) for each in self.evaluations.values())
        checkpoints = (_before(each, stays, places) for each in self.checkpoints.values())
        self.evaluations = {(each.iteration, each.metric): each for each in evaluations if each is not None}
        self.checkpoints = {each.iteration: each for each in checkpoints if each is not None}
        self.restarts = [replace(each, row=min(each.row, len(kept))) for each in self.restarts]
        self.rollbacks = [replace(each, row=min(each.row, len(kept))) for each in self.rollbacks]
        return reached, lost, beside_ms

    def run(self, name: str, format: Format, row_contains_evaluation: bool, mfu_smoothing: float | None) -> Run:
        """What it has become."""
        return Run(
            name=name,
            format=format,
            rows=self.rows,
            evaluations=tuple(self.evaluations[key] for key in sorted(self.evaluations)),
            checkpoints=tuple(self.checkpoints[key] for key in sorted(self.checkpoints)),
            restarts=tuple(self.restarts),
            rollbacks=tuple(self.rollbacks),
            spans=tuple(self.spans),
            facts=MappingProxyType(self.facts),
            row_contains_evaluation=row_contains_evaluation,
            mfu_smoothing=mfu_smoothing,
            wall_ms=self.wall_ms,
            gpu_use=self.gpu_use,
            ending=self.ending,
            skipped=tuple(self.skipped),
            spikes=tuple(self.spikes) if self.watches_loss or self.spikes else None,
            micro_batches=tuple(self.micro_batches),
            rank_lags=self.rank_lags,
            notes=tuple(self.notes),
            stage=self.stage,
            told_training_s=self.told_training_s,
            told_tokens=self.told_tokens,
            untimed=MappingProxyType(self.untimed),
            unread=self.unread,
        )


def name_runs(file: str, stages: Sequence[Stage | None]) -> list[str]:
    """The file's name for a run that is alone in it; else which one it is, by its stage where that is known."""
    if len(stages) == 1:
        return [file]
    names = []
    for number, stage in enumerate(stages, start=1):
        same = stages[:number].count(stage)
        if stage is not None:
            names.append(f"{file} ({stage})" if same == 1 else f"{file} ({stage} {same})")
        else:
            names.append(file if number == 1 else f"{file} #{number}")
    return names


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
