"""Builds Runs from what a reader finds, line by line.

Readers know lines, not history. The builder links an evaluation to the row that contains its time, detects restarts and
further runs in the same file, and keeps the iterations of a Run rising.
"""

from __future__ import annotations

from copy import copy
from math import inf
from types import MappingProxyType

from nanopace.incidents import LossSpike, MicroBatch, Note, RankLag
from nanopace.record import replace
from nanopace.run import (
    Because,
    Caveat,
    Checkpoint,
    Ending,
    Evaluation,
    Fact,
    FactValue,
    GpuReading,
    GpuUse,
    Metric,
    Origin,
    Rollback,
    Row,
    Run,
    Sample,
    Span,
    Stage,
    Unread,
)
from nanopace.sources.draft import LONGEST_SAMPLE, MOST_SAMPLES, Details, Draft, Drafts
from nanopace.sources.fold import Mixture
from nanopace.sources.log_format import LogFormat

_LONGEST_UNREAD = 80  # characters
_UNKNOWN = LogFormat(name="log", trainer="", reader="")


class RunBuilder:
    """Takes events in the order of the log; `finish` returns one or more Runs."""

    def __init__(self, name: str, format: LogFormat = _UNKNOWN) -> None:
        self.name = name
        self.format = format
        self.evaluations_seen = 0
        self._done = Drafts()
        self._draft = Draft()
        self._pending_evals: list[Evaluation] = []  # since the last row: does the next one contain them?
        self._pending_saves: list[Checkpoint] = []
        self._after_row: set[int] = set()  # iterations of those that belong to the next row, whatever its iteration
        self._began = False  # a process has started and has no row yet
        self._fresh: bool | None = None  # it starts from scratch (True), from a checkpoint (False), or does not say
        self._next_cell = False  # since the last row, a cell of a notebook has begun
        self._failed = False  # an attempt ended before its first row
        self._next = Details()
        self._rollbacks: list[Rollback] = []  # no row has followed these yet
        self._fetched = False  # data, since the last row

    # --- called by readers -------------------------------------------------------------------------------------------

    def begin_process(self, *, fresh: bool | None = None) -> None:
        """A process starts. Each of its header lines may call this; together they count once."""
        if self._draft.rows and not self._began:
            self._flush_pending()
            self._began, self._fresh = True, None
            self._next = Details()
        elif self._failed:
            self._details().facts.clear()
        self._failed = False
        if fresh is not None:
            self._fresh = fresh

    def begin_cell(self) -> None:
        """Another cell of a notebook follows. It is part of the training only if it has rows: an error in a cell that
        draws a chart did not end the run."""
        self._next_cell = True

    def fact(self, name: str, value: FactValue, origin: Origin = "log", because: Because | None = None) -> None:
        """Add a knob or a derived fact. The last value counts: a flag comes after the config it overrides."""
        self._details().facts[name] = Fact(value, origin, because)

    def drop_fact(self, name: str) -> None:
        """Remove a fact that turned out to be wrong."""
        self._details().facts.pop(name, None)

    def unread(self, line: int, text: str) -> None:
        """Note a line that looks like an evaluation but cannot be read."""
        before = self._draft.unread
        text = " ".join(text.split())
        text = text if len(text) <= _LONGEST_UNREAD else f"{text[: _LONGEST_UNREAD - 1]}…"
        self._draft.unread = Unread(1, line, text) if before is None else replace(before, count=before.count + 1)

    def row(self, row: Row, *, restarted: bool = False) -> None:
        """Add a line with a time. `restarted`: the line itself shows that its process is new."""
        draft = self._draft
        if not draft.timed and draft.rows and not self._began and draft.rows.last_iteration[-1] == row.iteration:
            draft.rows.cut(len(draft.rows) - 1)  # printed twice, now with its time
            self._pending_evals[:0] = draft.evaluations.take_from(row.iteration)
        if not self._is_repeated(row):
            self._append(row, restarted=restarted)

    def _is_repeated(self, row: Row) -> bool:
        """Whether the same line was printed twice: two log handlers, or a log pasted twice."""
        rows = self._draft.rows
        return bool(
            rows
            and not self._pending_evals
            and not self._began
            and not self._rollbacks
            and rows.last_iteration[-1] == row.iteration == row.last_iteration
            and rows[-1] == replace(row, at_s=rows[-1].at_s)
        )

    def _append(self, row: Row, *, restarted: bool = False, timed: bool = True) -> None:
        self._continue_or_restart(row.iteration, restarted)
        draft = self._draft
        if not timed and draft.timed and len(draft.rows):
            return  # from a process that resumed a run with times
        if timed and not draft.timed:
            draft.rows.cut(0)
        draft.timed = timed
        if len(draft.rows) >= draft.fold_at:
            draft.fold()
        index = len(draft.rows)
        draft.rows.append(row)
        draft.ending = None
        if self._fetched:
            draft.fetches.append(row.iteration)
            self._fetched = False
        self._flush_pending(row.iteration, index if timed else None)

    def untimed_row(self, iteration: int, loss: float | None) -> None:
        """Add a line with a loss but no time. It counts only if no row of its run has a time."""
        row = Row(iteration, 0.0, loss)
        is_beside_timed = len(self._draft.rows) and self._draft.timed and not self._began
        if not is_beside_timed and not self._is_repeated(row):
            self._append(row, timed=False)

    def drop_times(self) -> None:
        """The times of this run's rows turned out not to be those of its steps. Only its losses count."""
        self._draft.drop_times()

    def rate(self, iteration: int, rate: float | None) -> None:
        """Add the learning rate of a row, after that row. Any unit: only its course counts."""
        if rate is not None and 0 <= rate < inf:
            self._details().rates.add(iteration, rate)

    def mixture(self, folded: Mixture) -> None:
        """Add a stretch of rows with their evaluations. Nothing is pending, and it follows the last row."""
        draft = self._draft
        start = len(draft.rows)
        for row in folded.rows:
            draft.rows.append(row)
        draft.ending = None
        for evaluation in folded.evaluations:
            row_of = None if evaluation.row is None else start + evaluation.row
            draft.evaluations.put(replace(evaluation, row=row_of))
            self.evaluations_seen += evaluation.count
        for save in folded.checkpoints:
            draft.checkpoints.put(replace(save, row=None if save.row is None else start + save.row))

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
        bits_per_byte: float | None = None,
        at_s: float | None = None,
        after_row: bool = False,
    ) -> None:
        """Add an evaluation. The row that contains it has the same iteration or, with `after_row`, is the next one."""
        self.evaluations_seen += 1
        if after_row:
            self._after_row.add(iteration)
        if self._pending_evals and iteration < self._pending_evals[-1].iteration and not self._began:
            self._flush_pending()  # the earlier ones belong to what came before
        self._pending_evals.append(
            Evaluation(
                iteration,
                train,
                val,
                metric,
                ms=ms,
                val_error=val_error,
                train_steps=train_steps,
                bits_per_byte=bits_per_byte,
                at_s=at_s,
            )
        )

    def checkpoint(
        self,
        iteration: int | None = None,
        path: str | None = None,
        *,
        ms: float | None = None,
        background_ms: float | None = None,
    ) -> None:
        """Add a checkpoint. Without an iteration, it belongs to the evaluation just before it."""
        if iteration is None:
            if self._pending_evals:
                iteration = self._pending_evals[-1].iteration
            elif not self._draft.timed:
                iteration = self._draft.rows.last_iteration[-1]
            else:
                return  # the start of the log is missing
        self._pending_saves.append(Checkpoint(iteration, path, ms=ms, background_ms=background_ms))

    def span(self, span: Span) -> None:
        """Add a phase that the trainer measured."""
        self._details().spans.append(span)

    def rollback(self, iteration: int, failed_at: int, data_offset: int = 1) -> None:
        """The process went back to `iteration`. What it has done since then is kept until it is repeated."""
        self._flush_pending()
        self._rollbacks.append(Rollback(len(self._draft.rows), iteration, failed_at, data_offset=data_offset))

    def fetch(self) -> None:
        """Data was fetched over the network: the next row contains that."""
        self._fetched = True

    def skipped(self, iteration: int) -> None:
        """The update of the last row was skipped."""
        self._draft.skip(iteration)

    def watches_loss(self) -> None:
        """Call this if the trainer reports every loss spike."""
        self._details().watches_loss = True

    def spike(self, spike: LossSpike) -> None:
        """The loss of the last row is a spike."""
        self._draft.spike(spike)

    def micro_batch(self, change: MicroBatch) -> None:
        """From here on, training or evaluation uses a smaller micro-batch."""
        self._details().micro_batches.append(change)

    def note(self, note: Note) -> None:
        """Add a message for users."""
        self._details().notes.append(note)

    def sample(self, iteration: int, text: str) -> None:
        """Add text generated before this iteration. Only the newest are kept, and only the beginning of each."""
        samples = self._details().samples
        samples.append(Sample(iteration, text[:LONGEST_SAMPLE]))
        del samples[:-MOST_SAMPLES]

    def caveat(self, code: str, **numbers: float | int | str | None) -> None:
        """Add a warning about a figure of this log: a finding of diagnosis/codes.py. Each code counts once."""
        self._details().caveats[code] = Caveat(code, MappingProxyType(numbers))

    def rank_lags(self, lags: tuple[RankLag, ...]) -> None:
        """Set the lags of the run so far, over all its processes."""
        self._draft.rank_lags = lags

    def stage(self, stage: Stage | None) -> None:
        """Set the stage of the training. The last line that names one counts."""
        self._details().stage = stage or self._details().stage

    def training_time(self, seconds: float) -> None:
        """Set the time spent in steps so far, as the trainer counts it."""
        self._draft.printed_training_s = seconds or None

    def printed_tokens(self, tokens: int) -> None:
        """Set the tokens per step from printed figures that contradict the batch."""
        self._draft.printed_tokens = tokens

    def untimed(self, stage: Stage) -> None:
        """Count a row without a time, with the run before it."""
        self._draft.untimed[stage] = self._draft.untimed.get(stage, 0) + 1

    @property
    def rows_of_others(self) -> int:
        """The number so far, in the current run."""
        return self._draft.rows_of_others

    def row_of_rank(self, read: int, other: int) -> None:
        """Count a row of another rank than the one being read."""
        self._draft.rank = read
        self._draft.rows_of_ranks[other] += 1

    def row_of_another(self) -> None:
        """Count a row of another process, between the rows of the one being read."""
        self._draft.rows_of_others += 1

    def wall_ms(self, ms: float) -> None:
        """Add the time of one process by the trainer's clock. The processes of a run add up."""
        self._draft.wall_ms = (self._draft.wall_ms or 0.0) + ms

    def gpu_use(self, use: GpuUse | None) -> None:
        """Set the sensor figures of the run so far, over all its processes; None: unknown."""
        self._draft.gpu_use = use

    def gpu_readings(self, readings: tuple[GpuReading, ...]) -> None:
        """Set the sensor readings of the run so far, over all its processes."""
        self._draft.gpu_readings = readings

    def ending(self, ending: Ending, at: int | None = None) -> None:
        """Set how the process ended, and at which iteration if the trainer says so. Dropped if rows follow."""
        if self._began or self._next_cell or not self._draft.rows:
            self._failed = True
        elif self._draft.ending in (None, "error"):  # a traceback starts before it names its error
            self._draft.ending, self._draft.ended_at = ending, at

    def finish(self) -> list[Run]:
        """Return all runs that have rows."""
        if not self._began:
            self._flush_pending()
        for rollback in self._rollbacks:
            self._draft.add_rollback(rollback)
        if self._draft.rows:
            self._done.add(self._draft)
        runs = [draft.run(name, self.format) for name, draft in self._done.named(self.name)]
        if len(runs) < self._done.count:
            runs[0] = replace(runs[0], runs_of_file=self._done.count)
        return runs

    def snapshot(self) -> Run | None:
        """The current run as it stands, while reading continues. None before its first row."""

        if not self._draft.rows:
            return None
        twin = copy(self)
        twin._draft, twin._done = self._draft.twin(), Drafts()
        twin._pending_evals, twin._pending_saves = [*self._pending_evals], [*self._pending_saves]
        return twin.finish()[-1]

    # --- history -----------------------------------------------------------------------------------------------------

    def _details(self) -> Details:
        return self._next if self._began else self._draft

    def _continue_or_restart(self, iteration: int, restarted: bool) -> None:
        """Called before a row is added: does it continue the run, was the process restarted, or is it another run?"""
        if self._rollbacks:
            self._apply_rollbacks()
        draft = self._draft
        if not draft.rows:
            self._adopt_process()
            return
        may_be_new = self._pending_evals or self._began or self._next_cell or restarted
        if iteration > draft.rows.last_iteration[-1] and not may_be_new:
            return  # nearly always
        last = draft.rows.last_iteration[-1]
        start = min(
            [iteration, *(e.iteration for e in self._pending_evals if e.iteration < last or self._began or restarted)]
        )
        back = start <= last
        # A cell that is run again replaces what it printed, so a second one with the same beginning is another run.
        begins = draft.begins_over(start, headed=self._began) or (self._next_cell and start == draft.rows.iteration[0])
        another = (back and self._fresh is True) or (begins and self._fresh is not False)
        if another or start == 0:
            self._done.add(draft)
            self._draft = Draft()
        elif back or restarted or (self._began and self._fresh is False and not draft.rows_of_others):
            # If several processes print to the log, nothing shows whose header it is.
            draft.restart(start, self.format.row_contains_evaluation)
        elif self._fresh:  # what starts from scratch does not continue here: the header is another process's
            self._next = Details()
        self._adopt_process()

    def _adopt_process(self) -> None:
        """Add to this run what the process printed before its first row."""
        self._draft.merge(self._next)
        self._began, self._fresh, self._next_cell, self._failed = False, None, False, False
        self._next = Details()

    def _apply_rollbacks(self) -> None:
        """A rollback repeats rows only if the same run continues. If none followed, it was the end."""
        followed = not (self._began and self._fresh)
        for rollback in self._rollbacks:
            if followed:
                self._draft.roll_back(rollback, self.format.row_contains_evaluation)
            else:
                self._draft.add_rollback(rollback)
        self._rollbacks.clear()

    def _flush_pending(self, iteration: int | None = None, index: int | None = None) -> None:
        """Add the evaluations and checkpoints since the last row. Those of `iteration` are inside row `index`."""
        if not self.format.row_contains_evaluation:
            index = None
        for evaluation in self._pending_evals:
            inside = evaluation.iteration == iteration or evaluation.iteration in self._after_row
            row = index if inside else None
            self._draft.evaluate(evaluation if row is None else replace(evaluation, row=row))
        for save in self._pending_saves:
            row = index if save.iteration == iteration else None
            self._draft.checkpoints.put(save if row is None else replace(save, row=row))
        self._pending_evals.clear()
        self._pending_saves.clear()
        self._after_row.clear()
