"""What a run reports while it trains: its ledger events, and a few things that are not events.

The listener decides what is printed; the trainer itself prints nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from nanopace.ledger import Event, StepEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class Introduction:
    """What is known before the first step."""

    out_dir: str
    first_step: int  # 0, or where a resumed run continues
    last_step: int  # max_iters: the run ends after this iteration, as in nanoGPT
    tokens_per_step: int
    log_interval: int = 1
    choices: Mapping[str, str] = field(default_factory=dict)  # "device": "cpu: no CUDA card was found", ...
    flops_per_step: float = 0.0
    peak_flops: float | None = None  # of all cards, by their data sheet; None: unknown card
    phase_shares: Callable[[], Mapping[str, float]] = dict  # of the wall clock so far, by phase; they sum to 1
    # For a listener that has lost its output: writes a note, with its iteration, to the ledger only.
    note_in_ledger: Callable[[str, int], None] | None = None

    def mfu(self, step: StepEvent) -> float | None:
        """The share of the cards' real peak: 0.412 means 41.2%."""
        return self.flops_per_step / (step.ms / 1000) / self.peak_flops if self.peak_flops and step.ms > 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How the run ended."""

    reason: str  # finished, interrupted, or error: the last step could not be saved
    iteration: int  # total steps done
    wall_ms: float
    ledger: str
    checkpoint: str | None  # the newest one; None if nothing was saved
    out_dir: str | None = None  # the run directory of that checkpoint, if it is not the one asked for
    failure: str | None = None  # why out_dir lacks the last step; None if it has it, or was not meant to
    energy_kwh: float | None = None
    utilisation: float | None = None  # of a typical step, relative to what `nanopace tune` measured here
    measured_tflops: float | None = None
    logging: float = 0.0  # time between steps that is in no step's time, relative to the steps: 0.1 is a tenth


class Listener(Protocol):
    def started(self, intro: Introduction) -> None: ...

    def phase(self, name: str) -> None:
        """A phase begins: startup, compile, step, evaluation or checkpoint."""

    def event(self, event: Event) -> None:
        """Called with every event once it is in the ledger: every step, not only the logged ones."""

    def note(self, text: str) -> None:
        """Show a line to the user; it is not in the ledger."""

    def finished(self, outcome: Outcome) -> None: ...
