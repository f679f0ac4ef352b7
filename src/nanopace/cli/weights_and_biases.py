"""wandb_log: the same figures to Weights & Biases as nanoGPT sends, under the same names.

A training loss of the past steps has a name of its own: in one chart with nanoGPT's it would look like worse training.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from nanopace.errors import UsageError
from nanopace.ledger import EvalEvent, Event, StepEvent
from nanopace.literals import Value

if TYPE_CHECKING:
    from nanopace.train.listener import Introduction, Listener, Outcome


class WeightsAndBiases:
    """Passes everything on to another listener, and sends every evaluation to Weights & Biases."""

    def __init__(self, listener: Listener, given: Mapping[str, Value], project: str, name: str) -> None:
        try:
            wandb = import_module("wandb")
        except ImportError:
            raise UsageError("--wandb_log: needs wandb: pip install wandb") from None
        self._listener = listener
        self._wandb: Any = wandb
        self._given, self._project, self._name = given, project, name
        self._intro: Introduction | None = None
        self._last: StepEvent | None = None

    def started(self, intro: Introduction) -> None:
        self._intro = intro
        self._wandb.init(project=self._project, name=self._name, config=dict(self._given))
        self._listener.started(intro)

    def phase(self, name: str) -> None:
        self._listener.phase(name)

    def event(self, event: Event) -> None:
        if isinstance(event, StepEvent):
            self._last = event
        elif isinstance(event, EvalEvent):
            self._send(event)
        self._listener.event(event)

    def _send(self, event: EvalEvent) -> None:
        sent: dict[str, float | None] = {
            "iter": event.iteration,
            "train/loss" if event.train_steps is None else "train/loss_of_steps": event.train,
            "val/loss": event.val,
        }
        if self._last is not None and self._intro is not None:
            mfu = self._intro.mfu(self._last)
            sent |= {"lr": self._last.lr, "mfu": None if mfu is None else mfu * 100}
        self._wandb.log({name: value for name, value in sent.items() if value is not None})

    def note(self, text: str) -> None:
        self._listener.note(text)

    def finished(self, outcome: Outcome) -> None:
        self._wandb.finish()
        self._listener.finished(outcome)
