"""What a run reports while it trains: the events of its ledger, and a few things that are not events.

The listener decides what is printed; the trainer itself prints nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from nanopace.ledger import Event, StepEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class Introduction:
    """Known before the first step."""

    out_dir: str
    first_step: int  # 0, or where a resumed run goes on
    last_step: int  # max_iters: the run ends after this iteration, as nanoGPT's does
    tokens_per_step: int
    log_interval: int = 1
    choices: Mapping[str, str] = field(default_factory=dict)  # "device": "cpu: no CUDA card was found", ...
    flops_per_step: float = 0.0
    peak_flops: float | None = None  # of all cards, by their data sheet; None: unknown card
    phase_shares: Callable[[], Mapping[str, float]] = dict  # of the wall clock so far, by phase; they sum to 1
    # For a listener that has lost its output: a note for the ledger alone, and the iteration it is about.
    note_in_ledger: Callable[[str, int], None] | None = None

    def mfu(self, step: StepEvent) -> float | None:
        """Of the cards' real peak, 0.412 for 41.2%."""
        return self.flops_per_step / (step.ms / 1000) / self.peak_flops if self.peak_flops and step.ms > 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How the run ended."""

    reason: str  # finished, interrupted, or error: the last step could not be saved
    iteration: int  # steps done in all
    wall_ms: float
    ledger: str
    checkpoint: str | None  # the newest one; None: nothing is saved
    out_dir: str | None = None  # where that is, unless it is where it was to be
    failure: str | None = None  # why out_dir does not hold the last step; None: it does, or should not
    energy_kwh: float | None = None
    utilisation: float | None = None  # by the usual step, of what `nanopace tune` measured here
    measured_tflops: float | None = None
    logging: float = 0.0  # between steps, and in the time of none: 0.1 is a tenth of what the steps took


class Listener(Protocol):
    def started(self, intro: Introduction) -> None: ...

    def phase(self, name: str) -> None:
        """What begins now: startup, compile, step, evaluation, checkpoint."""

    def event(self, event: Event) -> None:
        """Every event, as the ledger has it by now: every step, not only those that are logged."""

    def note(self, text: str) -> None:
        """A line for whoever watches, which is not in the ledger."""

    def finished(self, outcome: Outcome) -> None: ...
