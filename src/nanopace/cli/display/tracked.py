"""A listener that also sends a run's figures to trackers, under nanoGPT's names.

A training loss of past steps has its own name: in one chart with nanoGPT's, it would look like worse training.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from nanopace.ledger import EvalEvent, Event, StepEvent
from nanopace.literals import Value
from nanopace.trackers.sending import Sending
from nanopace.trackers.tracker import Heading, Tracker

if TYPE_CHECKING:
    from nanopace.train.listener import Introduction, Listener, Outcome


class Tracked:
    """Passes everything on to another listener, and sends logged steps and all evaluations to each tracker."""

    def __init__(
        self, listener: Listener, trackers: Mapping[str, Tracker], given: Mapping[str, Value], project: str, name: str
    ) -> None:
        self._listener = listener
        self._trackers, self._given, self._project, self._name = trackers, given, project, name
        self._sending: list[Sending] = []
        self._intro: Introduction | None = None
        self._last: StepEvent | None = None

    def started(self, intro: Introduction) -> None:
        self._intro = intro
        self._listener.started(intro)
        heading = Heading(self._project, self._name, self._given, Path(intro.out_dir, "tensorboard"))
        self._sending = [Sending(name, each, heading, self.note) for name, each in self._trackers.items()]

    def phase(self, name: str) -> None:
        self._listener.phase(name)

    def event(self, event: Event) -> None:
        if isinstance(event, StepEvent):
            self._last = event
            if self._intro is not None and event.iteration % self._intro.log_interval == 0:
                self._send(event.iteration, _figures_of_step(event))
        elif isinstance(event, EvalEvent):
            self._send(event.iteration, self._figures_of_evaluation(event))
        self._listener.event(event)

    def note(self, text: str) -> None:
        self._listener.note(text)

    def finished(self, outcome: Outcome) -> None:
        for each in self._sending:
            each.finish()
        self._listener.finished(outcome)

    def _figures_of_evaluation(self, event: EvalEvent) -> dict[str, float | None]:
        figures: dict[str, float | None] = {
            "train/loss" if event.train_steps is None else "train/loss_of_steps": event.train,
            "val/loss": event.val,
        }
        if self._last is not None and self._intro is not None:
            mfu = self._intro.mfu(self._last)
            figures |= {"lr": self._last.lr, "mfu": None if mfu is None else mfu * 100}
        return figures

    def _send(self, step: int, figures: Mapping[str, float | None]) -> None:
        known = {name: value for name, value in figures.items() if value is not None and not math.isnan(value)}
        for each in self._sending:
            each.log(step, known)


def _figures_of_step(event: StepEvent) -> dict[str, float | None]:
    per_s = 1000 * event.tokens / event.ms if event.tokens and event.ms else None
    return {
        "train/step_loss": event.loss,
        "train/grad_norm": event.grad_norm,
        "time/step_ms": event.ms,
        "time/tokens_per_s": per_s,
    }
