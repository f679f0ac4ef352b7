"""Turns measured phases into ledger events.

A completed phase becomes an event. Time without a separate event, and the parts of steps, are collected and written
once a second, so that steps of a millisecond do not flood the ledger.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from nanopace.clock.background import BackgroundWriter
from nanopace.clock.phases import Phase, Step
from nanopace.ledger import EndEvent, Event, NoteEvent, ResumeEvent, RunEvent, SpanEvent
from nanopace.ledger.events import VERSION
from nanopace.version import __version__

_SPANS_EVERY_S = 1.0


class Book:
    """The events of this process. Nothing is written until the first step: without a step, there is no run."""

    def __init__(self, began: float) -> None:
        """`began`: when the process started, by `time.perf_counter`."""
        self.iteration = 0  # number of steps done
        self._began = began
        self._spans: dict[str, float] = {}
        self._spans_written = time.perf_counter()
        self._early: list[Event | str] = []
        self._writer: BackgroundWriter | None = None

    @property
    def is_open(self) -> bool:
        return self._writer is not None

    def open(
        self,
        path: Path,
        resume: int,
        facts: dict[str, Any],
        on_trouble: Callable[[str], object],
        on_bug: Callable[[Exception], object],
    ) -> None:
        """Open the ledger at the first step and describe the run. Raises OSError if the ledger cannot be created."""
        writer = BackgroundWriter(path, on_trouble, on_bug)
        since = time.perf_counter() - self._began
        started = (datetime.now() - timedelta(seconds=since)).astimezone().isoformat(timespec="seconds")
        run = RunEvent(started, __version__, ledger=VERSION, monotonic_s=time.monotonic() - since, at_ms=0.0, **facts)
        writer.put(run)
        if resume:
            writer.put(ResumeEvent(resume, at_ms=0.0))
        for event in self._early:
            writer.put(event)
        self._early.clear()
        self._writer = writer
        self.write_spans()

    def add(self, phase: str, ms: float) -> None:
        """Count time that has no separate event."""
        self._spans[phase] = self._spans.get(phase, 0.0) + ms

    def complete(self, phase: Phase) -> None:
        """Write the event of a phase whose time is measured and whose values are read."""
        if isinstance(phase, Step):
            phase.add("data", phase.waited_ms)
            self.add("data", phase.data_ms)
            self.add("optimizer", phase.optimizer_ms)
            self.add("step", phase.ms - phase.data_ms - phase.optimizer_ms)
        self._put(phase.line(self._now_ms()))
        if time.perf_counter() - self._spans_written >= _SPANS_EVERY_S:
            self.write_spans()

    def write_spans(self) -> None:
        at_ms, last = self._now_ms(), max(0, self.iteration - 1)
        for phase, ms in self._spans.items():
            if ms > 0:
                self._put(SpanEvent(phase, last, round(ms, 4), at_ms=at_ms))
        self._spans.clear()
        self._spans_written = time.perf_counter()

    def note(self, text: str) -> None:
        self._put(NoteEvent(" ".join(text.split()), self.iteration, at_ms=self._now_ms()))

    def close(self, reason: str | None) -> None:
        """Write the rest. `reason`: why the run ended; None if unknown."""
        if self._writer is None:
            return
        self.write_spans()
        if reason is not None:
            now_ms = self._now_ms()
            self._put(EndEvent(reason, now_ms, at_ms=now_ms))
        self._writer.close()

    def _put(self, event: Event | str) -> None:
        if self._writer is None:
            self._early.append(event)
        else:
            self._writer.put(event)

    def _now_ms(self) -> float:
        return round((time.perf_counter() - self._began) * 1000, 3)
