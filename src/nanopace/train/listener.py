"""What the loop tells while it trains. Who listens decides what is printed; the loop prints nothing itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Introduction:
    """Known before the first step."""

    out_dir: str
    first_step: int  # 0, or where a resumed run goes on
    last_step: int  # max_iters: the run ends after this iteration, as nanoGPT's does
    tokens_per_step: int
    log_interval: int = 1
    choices: Mapping[str, str] = field(default_factory=dict)  # "device": "cpu: no CUDA card was found", ...
    # For a listener whom nobody hears any more: a line into the ledger, and the iteration it is about.
    take_down: Callable[[str, int], None] = lambda _text, _iteration: None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepReport:
    """One training step. `ms` is the step alone."""

    iteration: int
    loss: float  # mean of all micro-batches
    ms: float
    tokens: int
    lr: float
    grad_norm: float | None  # before clipping; None: unknown
    mfu: float | None  # of the card's real peak, 0.412 for 41.2%; None: unknown card
    skipped: bool = False  # loss or gradient was not finite, so the weights stayed as they were
    spike: float | None = None  # by how many standard deviations the loss stands out; only where it does


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalReport:
    """One evaluation, before the step of the same iteration."""

    iteration: int
    val: float
    val_error: float  # standard error
    windows: int
    ms: float
    train: float | None = None  # of the steps since the last evaluation, or of nanoGPT's second pass
    train_error: float | None = None
    train_steps: int | None = None  # how many steps `train` is the mean of; None: a second pass
    bits_per_byte: float | None = None  # None: the tokens' lengths in bytes are unknown
    change: float | None = None  # to the evaluation before, window by window
    change_error: float | None = None
    best: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveReport:
    """One checkpoint, once it is whole on the disk."""

    iteration: int
    path: str
    stall_ms: float
    background_ms: float
    bytes: int


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

    def step(self, report: StepReport, shares: Mapping[str, float]) -> None:
        """Every step, not only those that are logged. `shares`: of the wall clock so far, by phase; they sum to 1."""

    def evaluated(self, report: EvalReport) -> None: ...

    def saved(self, report: SaveReport) -> None: ...

    def note(self, text: str) -> None:
        """One line that a person should see."""

    def finished(self, outcome: Outcome) -> None: ...
