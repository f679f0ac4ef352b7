"""Reads our ledger as a Run: the one source in which nothing has to be inferred.

The trainer stops its clock for evaluations and checkpoints and records what each of them cost. So rows contain only
steps, and the wall clock is measured, not a sum.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite
from typing import get_args

from nanopace.config import KNOBS
from nanopace.incidents import LossSpike, MemoryPlace, MicroBatch, Note, StallReason
from nanopace.ledger.events import (
    CheckpointEvent,
    CompileEvent,
    EndEvent,
    EvalEvent,
    Event,
    GpuEvent,
    MicroBatchEvent,
    NoteEvent,
    ResumeEvent,
    RollbackEvent,
    RunEvent,
    SampleEvent,
    SpanEvent,
    StallEvent,
    StepEvent,
)
from nanopace.ledger.file import EventReader
from nanopace.run import Ending, Metric, Phase, Row, Span
from nanopace.sources.build import RunBuilder
from nanopace.sources.gpu_readings import GpuReadings
from nanopace.sources.gpu_samples import GpuSamples
from nanopace.sources.printed_numbers import nan_as_inf
from nanopace.sources.processes.rank_lags import RankLags

SHORTEST_MS = 1e-6  # of a step: with less, the clock did not advance
_PHASES: frozenset[str] = frozenset(get_args(Phase))
_METRICS: frozenset[str] = frozenset(get_args(Metric))
_ENDINGS: frozenset[str] = frozenset(get_args(Ending))
_STALLS: frozenset[str] = frozenset(get_args(StallReason))
_PLACES: frozenset[str] = frozenset(get_args(MemoryPlace))
_WATCHED = (1, 2)  # since this version, a trainer reports loss spikes
_RUN_FACTS = (
    *("parameters", "flops_per_token", "tokens_per_iteration", "gpu", "gpu_memory_gb", "gpu_count"),
    *("measured_tflops", "corpus", "tokenizer"),
)


class LedgerReader:
    """Passes the events of a ledger to a builder."""

    def __init__(self, builder: RunBuilder, _width: int = 0) -> None:
        self._builder = builder
        self._events = EventReader()
        self._introduced = False  # the previous event was a run event
        self._clock_ms = 0.0  # of the current process
        self._process_counts = False  # it did a step of the run, or resumed it
        self._tokens_known = False
        self._measured = False  # the previous process knew its card's measured peak
        self._gpu = GpuSamples()
        self._readings = GpuReadings()
        self._ranks = RankLags()
        self._samples_pending = False  # the builder does not have the samples of the last process that counted
        self._world_size: int | None = None
        self._batch_sizes: dict[str, int] = {}  # current sizes, in training and in evaluations
        self._reduced: MicroBatchEvent | None = None  # the size that training was reduced to
        self._energy_kwh: float | None = None  # of this process

    def feed(self, line: str) -> bool:
        events = self._events.read(line)
        for event in events:
            self._take(event)
        return bool(events)

    @property
    def expects_more(self) -> bool:
        """Whether the next step decides if its process starts a run or resumes one."""
        return self._introduced

    def feed_steps(self, rows: Iterable[Row], at_ms: float, tokens: int) -> None:
        """Take consecutive steps, the last at `at_ms`, the first with this many tokens (0: unknown)."""
        self._set_tokens(tokens)
        for row in rows:
            self._builder.row(row)
        self._clock_ms = max(self._clock_ms, at_ms)
        self._gpu.step()
        self._process_counts = True

    def feed_cut(self, line: str) -> bool:
        """An event without its newline is complete if it has its closing brace, and unreadable otherwise."""
        return self.feed(line)

    def finish(self) -> None:
        self._end_process()
        self._flush_samples()

    def _take(self, event: Event) -> None:
        if isinstance(event, RunEvent):
            self._end_process()
            self._introduce(event)
        elif self._introduced:
            self._introduced = False
            resumed = isinstance(event, ResumeEvent)
            self._builder.begin_process(fresh=not resumed)
            if not resumed or self._ranks.world_size != self._world_size:
                self._flush_samples()
                self._ranks = RankLags(self._world_size)
            if not resumed:
                self._gpu, self._readings, self._reduced = GpuSamples(), GpuReadings(), None
        if event.at_ms is not None:
            self._clock_ms = max(self._clock_ms, event.at_ms)

        if isinstance(event, StepEvent):
            self._step(event)
        elif isinstance(event, (SpanEvent, CompileEvent, StallEvent)):
            self._builder.span(_span(event))
        elif isinstance(event, EvalEvent):
            self._evaluation(event)
        elif isinstance(event, CheckpointEvent):
            self._builder.checkpoint(event.iteration, event.path, ms=event.stall_ms, background_ms=event.background_ms)
        elif isinstance(event, GpuEvent):
            self._gpu.add(event)
            self._readings.add(event)
        elif isinstance(event, ResumeEvent):
            self._resume(event)
        elif isinstance(event, RollbackEvent):
            self._builder.rollback(event.iteration, event.failed_at, event.data_offset)
        elif isinstance(event, MicroBatchEvent):
            self._micro_batch(event)
        elif isinstance(event, NoteEvent):
            self._builder.note(Note(event.iteration, event.text))
        elif isinstance(event, SampleEvent):
            self._builder.sample(event.iteration, event.text)
        elif isinstance(event, EndEvent):
            self._end(event)

    def _introduce(self, event: RunEvent) -> None:
        """The next event shows whether this process starts a run or resumes one."""
        self._introduced = True
        self._builder.begin_process()
        for name, value in event.config.items():
            knob = KNOBS.get(name)
            fitted = value if knob is None else knob.fitted(value)
            if fitted is not None:
                self._builder.fact(name, fitted)
        for name in _RUN_FACTS:
            value = getattr(event, name)
            if isinstance(value, str) or (value or 0) > 0:  # 0 or less means no value
                self._builder.fact(name, value)
        if event.measured_tflops is None and self._measured:
            self._builder.fact("measured_tflops", "unknown")  # the known value is of the machine where it started
        self._measured = event.measured_tflops is not None
        self._world_size = event.world_size
        if (event.world_size or 0) > 1:  # a single process is not worth mentioning
            self._builder.fact("world_size", event.world_size or 0)
        if event.trainer is None and _version(event.ledger) >= _WATCHED:
            self._builder.watches_loss()
        batch_size = event.config.get("batch_size")
        self._batch_sizes = {"training": batch_size} if type(batch_size) is int else {}
        self._tokens_known = event.tokens_per_iteration is not None

    def _step(self, event: StepEvent) -> None:
        self._set_tokens(event.tokens or 0)
        loss = nan_as_inf(event.loss)
        if event.skipped and loss is not None and not isfinite(loss):
            loss = None  # the step was skipped, so its loss did not affect the run
        if event.ms >= SHORTEST_MS:
            self._builder.row(Row(event.iteration, event.ms, loss))
        if event.skipped:
            self._builder.skipped(event.iteration)
        if event.spike is not None and isfinite(event.spike):
            self._builder.spike(LossSpike(event.iteration, event.spike, loss))
        if event.slowest_rank is not None:
            self._ranks.add(event.slowest_rank, event.lag)
        self._gpu.step()
        self._process_counts = True

    def _set_tokens(self, tokens: int) -> None:
        if tokens and not self._tokens_known:
            self._builder.fact("tokens_per_iteration", tokens)
            self._tokens_known = True

    def _resume(self, event: ResumeEvent) -> None:
        """The checkpoint's micro-batch size takes precedence over the config."""
        self._process_counts = True
        if self._reduced is not None and self._reduced.iteration < event.iteration:
            self._set_micro_batch(self._reduced)

    def _micro_batch(self, event: MicroBatchEvent) -> None:
        if not event.batch_size or not event.accumulation:
            return
        where: MemoryPlace = event.where if event.where in _PLACES else "step"  # type: ignore[assignment]
        of = "evaluation" if where == "evaluation" else "training"
        before = self._batch_sizes.get(of)
        self._builder.micro_batch(MicroBatch(event.iteration, event.batch_size, event.accumulation, where, before))
        if of == "training":
            self._set_micro_batch(event)
        else:
            self._batch_sizes[of] = event.batch_size

    def _set_micro_batch(self, event: MicroBatchEvent) -> None:
        self._reduced, self._batch_sizes["training"] = event, event.batch_size
        self._builder.fact("batch_size", event.batch_size)
        self._builder.fact("gradient_accumulation_steps", event.accumulation)

    def _evaluation(self, event: EvalEvent) -> None:
        if event.metric in _METRICS:
            metric: Metric = event.metric  # type: ignore[assignment]
            self._builder.evaluation(
                event.iteration,
                nan_as_inf(event.train),
                nan_as_inf(event.val),
                metric=metric,
                ms=event.ms,
                val_error=event.val_error if isfinite(event.val_error or 0.0) else None,
                train_steps=event.train_steps,
                bits_per_byte=nan_as_inf(event.bits_per_byte),
            )
        elif event.ms is not None:  # a measurement of a later version: its time counts all the same
            self._builder.span(Span("evaluation", event.iteration, event.ms))

    def _end(self, event: EndEvent) -> None:
        if event.wall_ms is not None:
            self._clock_ms = event.wall_ms
        self._energy_kwh = event.energy_kwh
        if event.reason in _ENDINGS:
            self._builder.ending(event.reason)  # type: ignore[arg-type]

    def _flush_samples(self) -> None:
        """Once for all processes of a run: a ledger may have thousands."""
        if self._samples_pending:
            self._builder.gpu_use(self._gpu.use())
            self._builder.gpu_readings(self._readings.all())
            self._builder.rank_lags(self._ranks.all())
        self._samples_pending = False

    def _end_process(self) -> None:
        """Add its time to the run, unless it ended before its first step."""
        if self._process_counts:
            self._gpu.end_process(self._energy_kwh, self._world_size or 1)
            self._readings.end_process(self._clock_ms)
            self._samples_pending = True
            if self._clock_ms > 0:
                self._builder.wall_ms(self._clock_ms)
        self._clock_ms, self._process_counts, self._energy_kwh = 0.0, False, None


def _span(event: SpanEvent | CompileEvent | StallEvent) -> Span:
    if isinstance(event, CompileEvent):
        return Span("compile", event.iteration, event.ms)
    if isinstance(event, StallEvent):
        reason: StallReason = event.reason if event.reason in _STALLS else "unknown"  # type: ignore[assignment]
        return Span("stall", event.iteration, event.ms, reason=reason)
    phase: Phase = event.phase if event.phase in _PHASES else "other"  # type: ignore[assignment]
    return Span(phase, event.iteration, event.ms, event.background)


def _version(text: str) -> tuple[int, int]:
    """The codec has checked the major number. An invalid minor number counts as 0."""
    major, _, minor = text.partition(".")
    return int(major), int(minor) if minor.isascii() and minor.isdigit() and len(minor) < 10 else 0
