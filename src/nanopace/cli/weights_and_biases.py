"""wandb_log: the same figures to Weights & Biases as nanoGPT sends, under the same names.

A training loss of the past steps has a name of its own: in one chart with nanoGPT's it would look like worse training.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from nanopace.errors import UsageError
from nanopace.literals import Value

if TYPE_CHECKING:
    from nanopace.train.listener import EvalReport, Introduction, Listener, Outcome, SaveReport, StepReport


class WeightsAndBiases:
    """Listens to a run for another listener, and sends every evaluation on."""

    def __init__(self, listener: Listener, given: Mapping[str, Value], project: str, name: str) -> None:
        try:
            wandb = import_module("wandb")
        except ImportError:
            raise UsageError("--wandb_log: needs wandb: pip install wandb") from None
        self._listener = listener
        self._wandb: Any = wandb
        self._given, self._project, self._name = given, project, name
        self._last: StepReport | None = None

    def started(self, intro: Introduction) -> None:
        self._wandb.init(project=self._project, name=self._name, config=dict(self._given))
        self._listener.started(intro)

    def phase(self, name: str) -> None:
        self._listener.phase(name)

    def step(self, report: StepReport, shares: Mapping[str, float]) -> None:
        self._last = report
        self._listener.step(report, shares)

    def evaluated(self, report: EvalReport) -> None:
        sent: dict[str, float | None] = {
            "iter": report.iteration,
            "train/loss" if report.train_steps is None else "train/loss_of_steps": report.train,
            "val/loss": report.val,
        }
        if self._last is not None:
            sent |= {"lr": self._last.lr, "mfu": None if self._last.mfu is None else self._last.mfu * 100}
        self._wandb.log({name: value for name, value in sent.items() if value is not None})
        self._listener.evaluated(report)

    def saved(self, report: SaveReport) -> None:
        self._listener.saved(report)

    def note(self, text: str) -> None:
        self._listener.note(text)

    def finished(self, outcome: Outcome) -> None:
        self._wandb.finish()
        self._listener.finished(outcome)
