"""Profiles a window of steps of an ordinary run with torch's profiler, which starts and stops between steps."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch.profiler import ProfilerActivity, profile, schedule

from nanopace.ledger import Event, StepEvent

if TYPE_CHECKING:
    from nanopace.train.listener import Introduction, Listener, Outcome

_WARMUP = 1  # steps the profiler records and discards, because it is slow at first


class Profiled:
    """Passes everything on to another listener, and profiles `steps` steps after the first `skipped`.

    A step is reported one or two steps late, while the card works on later ones. So the window has the right number of
    steps, but they may be shifted by one or two.
    """

    def __init__(self, listener: Listener, target: Path, skipped: int, steps: int) -> None:
        self._listener, self._target = listener, target
        self._first = max(0, skipped - _WARMUP)
        self._left = _WARMUP + steps
        activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if torch.cuda.is_available() else [])]
        window = schedule(wait=0, warmup=_WARMUP, active=steps, repeat=1)
        self._profiler = profile(activities=activities, schedule=window, on_trace_ready=self._keep)
        self._open = False

    def started(self, intro: Introduction) -> None:
        self._listener.started(intro)

    def phase(self, name: str) -> None:
        self._listener.phase(name)

    def event(self, event: Event) -> None:
        if isinstance(event, StepEvent):
            if event.iteration == self._first:
                self._profiler.start()
                self._open = True
            elif self._open:
                self._profiler.step()
                self._left -= 1
                if not self._left:
                    self._close()
        self._listener.event(event)

    def note(self, text: str) -> None:
        self._listener.note(text)

    def finished(self, outcome: Outcome) -> None:
        if self._open:
            self._close()
        self._listener.finished(outcome)

    def _close(self) -> None:
        self._open = False
        self._profiler.stop()

    def _keep(self, profiler: profile) -> None:
        profiler.export_chrome_trace(str(self._target))
