"""Our own ledger as a Run: the one source in which nothing has to be inferred.

The trainer stops its clock for evaluations and checkpoints and says what each of them cost, so the rows are steps and
nothing else, and the wall clock is measured, not added up.
"""

from __future__ import annotations

from math import isfinite
from typing import get_args

from nanopace.ledger.events import (
    CheckpointEvent,
    CompileEvent,
    EndEvent,
    EvalEvent,
    Event,
    GpuEvent,
    ResumeEvent,
    RunEvent,
    SpanEvent,
    StallEvent,
    StepEvent,
)
from nanopace.ledger.file import EventReader
from nanopace.run import Ending, Format, Metric, Phase, Row, Span
from nanopace.sources.build import RunBuilder, kept_loss
from nanopace.sources.gpu_samples import GpuSamples

_PHASES: frozenset[str] = frozenset(get_args(Phase))
_METRICS: frozenset[str] = frozenset(get_args(Metric))
_ENDINGS: frozenset[str] = frozenset(get_args(Ending))
_RUN_FACTS = (
    *("parameters", "flops_per_token", "tokens_per_iteration", "gpu", "gpu_memory_gb", "gpu_count"),
    *("corpus", "tokenizer"),
)


class LedgerReader:
    """Feeds the events of a ledger to a builder."""

    format: Format = "ledger"

    def __init__(self, builder: RunBuilder) -> None:
        builder.describe("ledger", row_contains_evaluation=False)
        self._builder = builder
        self._events = EventReader()
        self._introduced = False  # the event before this one was a run event
        self._clock_ms = 0.0  # of the process that writes now
        self._process_counts = False  # it did a step of the run, or went on from a checkpoint of it
        self._tokens_known = False
        self._gpu = GpuSamples()
        self._energy_kwh: float | None = None  # that this process told

    def feed(self, line: str) -> bool:
        events = self._events.read(line)
        for event in events:
            self._take(event)
        return bool(events)

    def feed_cut(self, line: str) -> bool:
        """An event without its newline is whole if its last brace is there, and is none if it is not."""
        return self.feed(line)

    def finish(self) -> None:
        self._end_process()

    def _take(self, event: Event) -> None:
        if isinstance(event, RunEvent):
            self._end_process()
            self._introduce(event)
        elif self._introduced:
            self._introduced = False
            resumed = isinstance(event, ResumeEvent)
            self._builder.begin_process(fresh=not resumed)
            if not resumed:
                self._gpu = GpuSamples()
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
        elif isinstance(event, ResumeEvent):
            self._process_counts = True
        elif isinstance(event, EndEvent):
            self._end(event)

    def _introduce(self, event: RunEvent) -> None:
        """Whether this process starts a run or goes on with one is told by the event after this one."""
        self._introduced = True
        self._builder.begin_process()
        for name, value in event.config.items():
            self._builder.fact(name, value)
        for name in _RUN_FACTS:
            value = getattr(event, name)
            if value is not None:
                self._builder.fact(name, value)
        self._tokens_known = event.tokens_per_iteration is not None

    def _step(self, event: StepEvent) -> None:
        if event.tokens and not self._tokens_known:
            self._builder.fact("tokens_per_iteration", event.tokens)
            self._tokens_known = True
        if event.ms > 0:  # a clock that stood still tells nothing
            self._builder.row(Row(event.iteration, event.ms, kept_loss(event.loss)))
        self._process_counts = True

    def _evaluation(self, event: EvalEvent) -> None:
        if event.metric in _METRICS:
            metric: Metric = event.metric  # type: ignore[assignment]
            self._builder.evaluation(
                event.iteration,
                kept_loss(event.train),
                kept_loss(event.val),
                metric=metric,
                ms=event.ms,
                val_error=event.val_error if isfinite(event.val_error or 0.0) else None,
                train_steps=event.train_steps,
            )
        elif event.ms is not None:  # a measure of a later version: it took its time all the same
            self._builder.span(Span("evaluation", event.iteration, event.ms))

    def _end(self, event: EndEvent) -> None:
        if event.wall_ms is not None:
            self._clock_ms = event.wall_ms
        self._energy_kwh = event.energy_kwh
        if event.reason in _ENDINGS:
            self._builder.ending(event.reason)  # type: ignore[arg-type]

    def _end_process(self) -> None:
        """Its time belongs to the run, unless it was a first attempt that came to nothing."""
        if self._process_counts:
            self._gpu.end_process(self._energy_kwh)
            self._builder.gpu_use(self._gpu.use())
            if self._clock_ms > 0:
                self._builder.wall_ms(self._clock_ms)
        self._clock_ms, self._process_counts, self._energy_kwh = 0.0, False, None


def _span(event: SpanEvent | CompileEvent | StallEvent) -> Span:
    if isinstance(event, CompileEvent):
        return Span("compile", event.iteration, event.ms)
    if isinstance(event, StallEvent):
        return Span("stall", event.iteration, event.ms)
    phase: Phase = event.phase if event.phase in _PHASES else "other"  # type: ignore[assignment]
    return Span(phase, event.iteration, event.ms, event.background)
