"""A Run while it is being read, and how it changes when a process repeats a part of it.

The iterations of a Run always rise. When a process resumes from a checkpoint or rolls back to one, the rows since then
move to the restart or rollback, so that their time still counts.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from nanopace.incidents import LossSpike, MicroBatch, Note, RankLag
from nanopace.record import replace
from nanopace.run import (
    Caveat,
    Checkpoint,
    Ending,
    Evaluation,
    Fact,
    GpuReading,
    GpuUse,
    OtherRanks,
    Restart,
    Rollback,
    Rows,
    Run,
    Sample,
    Span,
    Stage,
    Unread,
)
from nanopace.sources.by_iteration import ByIteration, Event
from nanopace.sources.fold import divide, fold_behind, take_rows
from nanopace.sources.log_format import LogFormat
from nanopace.sources.rates import Rates

MOST_SAMPLES = 100  # the newest text samples that a run keeps
LONGEST_SAMPLE = 2000  # characters of each
UNFOLDED = 500  # rows at the start of a run that stay single, as in bulk/nanogpt.py
FOLD_ROWS = 400_000  # rows to collect before folding them: a log of 16 MB has fewer
MOST_RUNS = 256  # to keep per file, half of them from its beginning: nobody reads more reports


class Details:
    """What a process prints in addition to its rows. Only its first row shows which run it belongs to."""

    def __init__(self) -> None:
        self.facts: dict[str, Fact] = {}
        self.spans: list[Span] = []
        self.micro_batches: list[MicroBatch] = []
        self.notes: list[Note] = []
        self.samples: list[Sample] = []
        self.caveats: dict[str, Caveat] = {}  # by code
        self.rates = Rates()
        self.watches_loss = False
        self.stage: Stage | None = None

    def merge(self, other: Details) -> None:
        self.facts.update(other.facts)
        self.spans += other.spans
        self.micro_batches += other.micro_batches
        self.notes += other.notes
        self.samples = [*self.samples, *other.samples][-MOST_SAMPLES:]
        self.caveats.update(other.caveats)
        self.rates.add_all(other.rates)
        self.watches_loss |= other.watches_loss
        self.stage = other.stage or self.stage


class Draft(Details):
    """A run so far."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = Rows()
        self.timed = True  # whether the rows have times
        self._folded = UNFOLDED  # this many rows are folded, as far as possible
        self.evaluations: ByIteration[Evaluation] = ByIteration()
        self.checkpoints: ByIteration[Checkpoint] = ByIteration()
        self._setbacks: list[Restart | Rollback] = []  # in order
        self._skipped: list[tuple[int, int]] = []  # the iteration, and the number of setbacks before it
        self._spikes: list[tuple[LossSpike, int]] = []
        self.fetches: array[int] = array("q")  # iterations of the rows that contain one
        self.rank_lags: tuple[RankLag, ...] = ()
        self.wall_ms: float | None = None
        self.gpu_use: GpuUse | None = None
        self.gpu_readings: tuple[GpuReading, ...] = ()
        self.ending: Ending | None = None
        self.ended_at: int | None = None
        self.printed_training_s: float | None = None
        self.printed_tokens: int | None = None
        self.untimed: dict[Stage, int] = {}
        self.unread: Unread | None = None
        self.rows_of_ranks: Counter[int] = Counter()  # rows of ranks other than `rank`
        self.rank = 0
        self.rows_of_others = 0

    def evaluate(self, evaluation: Evaluation) -> None:
        """Add an evaluation. The last one of an iteration counts; the time of an earlier one is kept as a span."""
        before = self.evaluations.put(evaluation)
        if before is not None and before.ms is not None and before != evaluation:
            self.spans.append(Span("evaluation", before.iteration, before.ms))

    def skip(self, iteration: int) -> None:
        """The update of an iteration was skipped."""
        self._skipped.append((iteration, len(self._setbacks)))

    def spike(self, spike: LossSpike) -> None:
        """A loss stood out."""
        self._spikes.append((spike, len(self._setbacks)))

    def begins_over(self, iteration: int, *, headed: bool) -> bool:
        """Whether a process that begins at this iteration continues nothing of this run: it goes back to before the
        first row, or to it, and that is where training begins, at 0 or 1 or one interval after that. Where no process
        has announced itself, somebody pasted what it printed, perhaps without its first row."""
        rows = self.rows
        first = rows.iteration[0]
        interval = rows.iteration[1] - first if len(rows) > 1 else 1
        at_beginning = iteration == first or (not headed and iteration <= min(interval, rows.last_iteration[-1]))
        return iteration < first or (at_beginning and first <= interval)

    def restart(self, iteration: int, row_contains_evaluation: bool) -> None:
        """Add a restart. Skipped steps and spikes after `iteration` will be reported again: the data is the same."""
        reached, lost, beside_ms = self._set_back(iteration, row_contains_evaluation)
        self._setbacks.append(Restart(len(self.rows), iteration, reached, lost, beside_ms))

    def roll_back(self, rollback: Rollback, row_contains_evaluation: bool) -> None:
        if self.rows:
            _, lost, beside_ms = self._set_back(rollback.iteration, row_contains_evaluation)
            rollback = replace(rollback, lost=lost, beside_ms=beside_ms)
        self.add_rollback(rollback)

    def add_rollback(self, rollback: Rollback) -> None:
        """Add a rollback without removing anything."""
        self._setbacks.append(replace(rollback, row=len(self.rows)))

    def _set_back(self, iteration: int, row_contains_evaluation: bool) -> tuple[int, Rows, float]:
        """Remove what will be repeated. Return how far it had come, its rows, and the time of its evaluations and
        checkpoints.

        The cost is proportional to what is removed: a log may go back at every line.
        """
        # If counting starts at 0, an evaluation comes before the step of its iteration, which may never have followed.
        before_step = row_contains_evaluation or self.rows.iteration[0] == 0
        reached = max(self.rows.last_iteration[-1], self.evaluations.latest() - before_step)
        lost, places = take_rows(self.rows, iteration)
        del self.fetches[bisect_left(self.fetches, iteration) :]
        self._folded = min(self._folded, max(UNFOLDED, len(self.rows)))
        # Those of the iteration it resumes from stay, unless they are inside a row that is repeated.
        stays = iteration if row_contains_evaluation else iteration + 1
        taken: list[Evaluation | Checkpoint]
        taken = [*_take_back(self.evaluations, stays, places), *_take_back(self.checkpoints, stays, places)]
        return reached, lost, sum((each.ms or 0.0 for each in taken), 0.0)

    @property
    def fold_at(self) -> int:
        """The number of rows at which to fold the unfolded ones."""
        return self._folded + FOLD_ROWS

    def fold_beyond(self, most: int) -> None:
        """Fold if more than `most` rows are unfolded."""
        if len(self.rows) > self._folded + most:
            self.fold()

    def twin(self) -> Draft:
        """A copy that does not change with this one."""
        from copy import copy

        other = copy(self)
        vars(other).update({name: copy(value) for name, value in vars(self).items()})
        other.rows = self.rows[:]
        return other

    def fold(self) -> None:
        """Fold similar rows into one, so that a log of any length fits in memory (see fold.py).

        A group never spans an evaluation, a checkpoint or a setback.
        """
        rows, start = self.rows, self._folded
        self._setbacks = self._relocated_setbacks()
        evaluations = self.evaluations.take_from(rows.iteration[start])
        checkpoints = self.checkpoints.take_from(rows.iteration[start])
        events: list[Evaluation | Checkpoint] = [*evaluations, *checkpoints]
        breaks = {bisect_left(rows.last_iteration, each.iteration) for each in events}
        breaks |= {each.row for each in (*events, *self._setbacks) if each.row is not None}
        places = fold_behind(rows, start, breaks)
        _put_back(self.evaluations, evaluations, places)
        _put_back(self.checkpoints, checkpoints, places)
        self._setbacks = [replace(each, row=places.get(each.row, each.row)) for each in self._setbacks]
        self._folded = len(rows)

    def _relocated_setbacks(self) -> list[Restart | Rollback]:
        """The setbacks, each with the first remaining row after it: a later setback may have removed its row, too."""
        relocated: list[Restart | Rollback] = []
        row = len(self.rows)
        for each in reversed(self._setbacks):
            row = min(row, each.row)
            relocated.append(each if each.row == row else replace(each, row=row))
        return relocated[::-1]

    def _restart_bounds(self) -> list[float]:
        """By the number of setbacks before: the lowest iteration that a later restart repeats and reports again."""
        bounds = [math.inf]
        for each in reversed(self._setbacks):
            bounds.append(min(bounds[-1], each.iteration) if isinstance(each, Restart) else bounds[-1])
        return bounds[::-1]

    def drop_times(self) -> None:
        """Keep only the losses of the rows, and the evaluations beside them."""
        for index in range(len(self.rows)):
            self.rows.ms[index] = self.rows.sum_ms[index] = 0.0
        self.timed = False
        self.caveats.pop("whole_seconds", None)
        for each in self.evaluations.in_order():
            self.evaluations.put(replace(each, row=None))

    def run(self, name: str, format: LogFormat) -> Run:
        """The finished Run."""
        setbacks, bounds = self._relocated_setbacks(), self._restart_bounds()
        skipped = tuple(iteration for iteration, before in self._skipped if iteration < bounds[before])
        spikes = tuple(spike for spike, before in self._spikes if spike.iteration < bounds[before])
        return Run(
            name=name,
            format=format.name,
            rows=self.rows if self.timed else Rows(),
            untimed_rows=Rows() if self.timed else self.rows,
            rates=self.rates.in_order(),
            evaluations=self.evaluations.in_order(),
            checkpoints=self.checkpoints.in_order(),
            restarts=tuple(each for each in setbacks if isinstance(each, Restart)),
            rollbacks=tuple(each for each in setbacks if isinstance(each, Rollback)),
            spans=tuple(self.spans),
            facts=MappingProxyType(self.facts),
            trainer=format.trainer,
            row_contains_evaluation=format.row_contains_evaluation,
            mfu_smoothing=format.mfu_smoothing,
            row_loss=format.row_loss,
            nanogpt_knobs=format.nanogpt_knobs,
            gpt2_shape=format.gpt2_shape,
            compiles=format.compiles,
            has_stages=format.has_stages,
            stops_before_max_iters=format.stops_before_max_iters,
            cools_down=format.cools_down,
            wall_ms=self.wall_ms,
            gpu_use=self.gpu_use,
            gpu_readings=self.gpu_readings,
            ending=self.ending,
            ended_at=self.ended_at if self.ending == "finished" else None,
            skipped=skipped,
            spikes=spikes if self.watches_loss or spikes else None,
            micro_batches=tuple(self.micro_batches),
            rank_lags=self.rank_lags,
            notes=tuple(self.notes),
            samples=tuple(self.samples),
            stage=self.stage,
            told_training_s=self.printed_training_s,
            told_tokens=self.printed_tokens,
            untimed=MappingProxyType(self.untimed),
            fetches=tuple(self.fetches),
            caveats=tuple(self.caveats.values()),
            clock_ms=format.clock_ms,
            unread=self.unread,
            other_ranks=self._other_ranks(),
            rows_of_others=self.rows_of_others,
        )

    def _other_ranks(self) -> OtherRanks | None:
        others = self.rows_of_ranks
        return OtherRanks(self.rank, len(others) + 1, others.total()) if others else None


class Drafts:
    """The finished runs of a file: all of them or, if there are very many, the first and the last ones."""

    def __init__(self) -> None:
        self.count = 0
        self._first: list[tuple[str, Draft]] = []
        self._last: deque[tuple[str, Draft]] = deque(maxlen=MOST_RUNS // 2)
        self._stages: Counter[Stage | None] = Counter()

    def add(self, draft: Draft) -> None:
        self.count += 1
        self._stages[draft.stage] += 1
        which = _suffix(self.count, draft.stage, self._stages[draft.stage])
        kept = self._first if len(self._first) < MOST_RUNS // 2 else self._last
        kept.append((which, draft))

    def named(self, file: str) -> list[tuple[str, Draft]]:
        """Each run with its name: the file's name and, if there are several runs, which one it is."""
        kept = [*self._first, *self._last]
        return (
            [(file, draft) for _, draft in kept] if len(kept) == 1 else [(file + which, each) for which, each in kept]
        )


def _suffix(number: int, stage: Stage | None, of_stage: int) -> str:
    """The stage if known, else the number."""
    if stage is not None:
        return f" ({stage})" if of_stage == 1 else f" ({stage} {of_stage})"
    return "" if number == 1 else f" #{number}"


def _take_back(events: ByIteration[Event], iteration: int, places: Mapping[int, int]) -> list[Event]:
    """Take out, and return, what is not before an iteration. The part of a group that is before it stays."""
    taken = events.take_from(iteration)
    for event in taken:
        if (kept := _before(event, iteration, places)) is not None:
            events.put(kept)
    return taken


def _put_back(events: ByIteration[Event], taken: Iterable[Event], places: Mapping[int, int]) -> None:
    """Put events back whose rows have moved."""
    for event in taken:
        events.put(replace(event, row=None if event.row is None else places[event.row]))


def _before(event: Event, iteration: int, places: Mapping[int, int]) -> Event | None:
    """The part of an event, or of a group, before an iteration. `places` maps divided rows to their new indices."""
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
