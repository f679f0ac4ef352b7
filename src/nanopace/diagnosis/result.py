"""What a run means: codes and numbers, never sentences.

The records are the JSON: `views/json.py` writes each field under its own name, and docs/json-format.md explains them.
Shares and mfu are fractions, the name of a time ends in its unit, and unknown is None.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from nanopace.diagnosis.bill import Bill
from nanopace.incidents import LossSpike, MicroBatch, Note, RankLag, StallReason
from nanopace.record import Record, shown_in_a_notebook
from nanopace.run import Ending, Fact, GpuUse, Metric, Sample, Stage

JSON_VERSION = 1
WIDE = 0.2  # show an interval that is wider than this share of its figure

Cause = Literal["compile", "evaluation", "checkpoint", "restart", "periodic", "data", "stall"]
Basis = Literal["measured", "stamps", "upper_bound", "unknown"]  # stamps: from the time stamps of the log lines
Verdict = Literal["near_limit", "good", "power_limited", "half_idle", "mostly_idle", "above_peak"]
ForecastBasis = Literal["trend", "schedule"]  # a fitted a + b * iteration^-c; or the law of loss/final_loss.py
FigureBasis = Literal["flops", "printed"]  # from tokens and FLOPs per token, or from the printed mfu

Number = float | int | str | None


class Finding(Record):
    """One conclusion. `numbers` are what its sentence needs (FINDINGS in diagnosis/codes.py)."""

    code: str
    numbers: Mapping[str, Number] = MappingProxyType({})
    saves_s: float | None = None  # advice only: the time it would have saved in this run
    saves_share: float | None = None  # of this run's wall clock
    advice: bool = False

    def number(self, name: str) -> float:
        """One of its numbers; 0 if that is unknown."""
        number = self.numbers.get(name)
        return number if isinstance(number, (int, float)) else 0.0


class Source(Record):
    """Which log this is, and which iterations it covers."""

    name: str
    format: str
    rows: int  # log lines with a time; if none has one, those with a loss
    first_iteration: int
    last_iteration: int
    log_interval: int | None
    ending: Ending | None
    stage: Stage | None = None  # for trainers with several


class Level(Record):
    """A stretch of the run with one typical step time."""

    first_iteration: int
    last_iteration: int
    median_ms: float


class Step(Record):
    """The time of a normal step."""

    median_ms: float | None = None  # None if the log has no times
    spread: float | None = None  # scaled MAD of the normal rows as a fraction of the median
    normal_rows: int = 0
    uneven_rows: int = 0  # outside the noise, but not by enough to be slow
    levels: tuple[Level, ...] = ()  # one, unless the baseline shifted
    drift_share: float | None = None  # slope of a steady drift over the whole run, as a fraction; None without one
    change_share: float | None = None  # last fifth over first, minus 1; None if below 5% or possibly chance
    first_fifth_ms: float | None = None  # median of the first fifth of the plain rows; None for fewer than ten
    last_fifth_ms: float | None = None
    low_ms: float | None = None  # a tenth of the normal rows are at or below this ...
    high_ms: float | None = None  # ... and a tenth are above this; None if the clock's resolution may explain both


class SlowRow(Record):
    """A row that took at least a quarter longer than the steps around it."""

    iteration: int
    ms: float
    excess_ms: float  # over the step time around it
    causes: tuple[Cause, ...]
    parts_ms: Mapping[str, float]  # by cause, as far as the log separates them; the sum is excess_ms
    count: int = 1  # in a very long log, a row may stand for several; times are those of one


class Evaluations(Record):
    """The number of evaluations, and the cost of one."""

    count: int  # from the start of training to the final one; without those before the first step of a process
    visible: int  # inside the time of a row, or measured by the trainer
    hidden: int  # between rows, or outside the rows' clock
    each_ms: float | None  # per evaluation; includes the checkpoint if the two cannot be separated
    interval: int | None
    contains_checkpoint: bool = False
    predicted_ms: float | None = None  # 2 x eval_iters forward passes at a third of a micro-step, if these are known
    low_ms: float | None = None  # 80% interval of each_ms; spans all stretches if they differ
    high_ms: float | None = None


class Checkpoints(Record):
    """The number of checkpoints, the cost of one, and how it is known."""

    count: int
    each_ms: float | None  # if basis is upper_bound: at most this
    basis: Basis
    saved_rows: int = 0  # evaluation rows with a save ...
    unsaved_rows: int = 0  # ... and without: the natural experiment
    background_ms: float | None = None
    low_ms: float | None = None  # 80% interval of the cost of one; None if only a bound is known
    high_ms: float | None = None
    at_least_ms: float | None = None  # the first row limits the evaluation; None if each_ms is measured

    @property
    def wide_interval(self) -> tuple[float, float] | tuple[None, None]:
        """The interval, if it is wide enough to show."""
        if self.each_ms is None or self.low_ms is None or self.high_ms is None:
            return None, None
        wide = self.high_ms - self.low_ms > WIDE * self.each_ms
        return (self.low_ms, self.high_ms) if wide else (None, None)


class Startup(Record):
    """The first row: one step and everything before it."""

    total_ms: float
    step_ms: float
    evaluation_ms: float | None
    compile_ms: float | None  # compile and warm-up; None if the evaluation in the same row is unknown


class Restarts(Record):
    """How often training was restarted, and what that cost."""

    count: int
    lost_iterations: int
    lost_s: float | None  # repeated iterations, and start-ups after the first; None if the log does not show it


class Wall(Record):
    """Every second of the run. The parts add up to total_s; a part is None if it is included in another or unknown (the
    findings say which)."""

    total_s: float | None = None
    training_s: float | None = None
    evaluation_s: float | None = None
    checkpoint_s: float | None = None
    startup_s: float | None = None
    stall_s: float | None = None
    restart_s: float | None = None
    other_s: float | None = None  # logging and the like, as our trainer measures it
    unknown_s: float | None = None  # None: the log's clock leaves out evaluations of unknown cost
    overhead_share: float | None = None  # evaluation and checkpoints as a share of the time that the machine was awake
    goodput: float | None = None  # training as a share of that time
    measured: bool = False  # by the ledger's own clock, not reconstructed from rows
    suspended_s: float | None = 0.0  # the machine slept, or the run was stopped by Ctrl-Z
    rollback_s: float | None = 0.0  # steps repeated with other data

    @property
    def awake_s(self) -> float:
        """The basis of all shares: no setting changes how long a machine sleeps. 0 if the time is unknown."""
        return (self.total_s or 0.0) - (self.suspended_s or 0.0)


class Phases(Record):
    """The phases inside a run, from its ledger. The first three and bus_s add up to training_s of the wall clock; the
    next two to its startup_s, except for the extra time of the first steps."""

    data_s: float  # waiting for tokens
    forward_backward_s: float
    optimizer_s: float
    startup_s: float
    compile_s: float
    logging_s: float
    other_s: float
    checkpoint_background_s: float  # in the background; costs no wall clock
    bus_s: float | None = None  # waiting for copies from and to the host's memory; None if the run keeps nothing there


class Stall(Record):
    """A stall that the trainer reported."""

    iteration: int
    reason: StallReason
    length_s: float
    end_s: float  # on the wall clock


class Setback(Record):
    """A return to a checkpoint because the loss was no longer finite."""

    iteration: int
    failed_at: int
    lost_iterations: int
    lost_s: float


class Faults(Record):
    """Problems that did not end the run, as reported by its trainer; loss spikes are searched for in any log."""

    stalls: tuple[Stall, ...] = ()
    skipped_steps: int = 0
    skipped_streaks: int = 0
    skipped_iterations: tuple[int, ...] = ()  # the first ones
    spikes: tuple[LossSpike, ...] = ()
    rollbacks: tuple[Setback, ...] = ()
    micro_batches: tuple[MicroBatch, ...] = ()
    ranks: tuple[RankLag, ...] = ()


class Ahead(Record):
    """What remains to be done at this pace, including overhead."""

    seconds_per_1000: float | None = None  # None if no row is a plain step
    max_iters: int | None = None
    remaining_iterations: int | None = None
    eta_s: float | None = None
    overhead_share: float | None = None  # share of evaluations and checkpoints in that time
    eta_low_s: float | None = None  # 80% interval of eta_s; None if too little is known (see time_left.py)
    eta_high_s: float | None = None


class Throughput(Record):
    """Speed in tokens, from normal rows only."""

    tokens_per_s: float | None = None
    tokens_per_s_overall: float | None = None  # including evaluations, checkpoints and stalls
    tokens_per_day: float | None = None
    tokens_per_iteration: float | None = None
    tokens_total: float | None = None
    micro_batch_ms: float | None = None
    micro_batch_sequences: int | None = None
    told_training_s: float | None = None  # the trainer's own total for its steps, without the first ones


class Mfu(Record):
    """How much of a card was used: as printed, as printed but corrected, and for the card that ran."""

    printed_last: float | None
    steady_printed: float | None  # as printed, but without the rows that contain an evaluation
    printed_peak_tflops: float | None  # the peak that the trainer divided by
    achieved_tflops: float | None
    achieved_tflops_causal: float | None  # counting only the half of the attention that is computed
    card: float | None  # for the card that ran: dense, with FP32 accumulate; None if several cards are possible
    card_causal: float | None
    card_name: str | None
    card_tflops: float | None
    card_verified: str | None  # how reliable the table's row is
    verdict: Verdict | None
    card_low: float | None = None  # if cards with different peaks are possible: for the highest peak
    card_high: float | None = None  # for the lowest peak
    card_precision: Literal["bf16", "fp16", "fp32"] | None = None  # the precision of `card_tflops`
    steady_basis: FigureBasis | None = None
    achieved_basis: FigureBasis | None = None


class Model(Record):
    """The size of the model, and the cost of a token."""

    parameters: float | None
    flops_per_token: float | None
    flops_per_token_causal: float | None


class Forecast(Record):
    """The validation loss to expect after more training, and its 80% interval."""

    iteration: int
    loss: float
    low: float
    high: float
    basis: ForecastBasis = "trend"


class Loss(Record):
    """The current losses and their trend."""

    metric: Metric
    best_val: float | None
    best_val_iteration: int | None
    best_val_perplexity: float | None  # exp(loss); None for bits per byte
    last_val: float | None
    last_val_iteration: int | None
    last_train: float | None  # of the last evaluation
    gap: float | None  # last validation loss minus last training loss
    gap_trend: float | None  # change of the gap over the last half of the run
    saved_best: bool | None  # whether a checkpoint was written at the best evaluation
    noise: float | None  # standard deviation of the printed training loss around its trend
    forecast: tuple[Forecast, ...]  # by trend at 1.5 x and 2 x the iterations; by schedule at the end of the run
    best_val_error: float | None = None  # standard errors, if the trainer measures them
    last_val_error: float | None = None
    core: float | None = None  # nanochat's last CORE metric, or ChatCORE after fine-tuning; higher is better
    core_iteration: int | None = None
    best_core: float | None = None
    best_core_iteration: int | None = None
    last_train_steps: int | None = None  # last_train is the mean of this many steps; None: measured like last_val


class Curves(Record):
    """Data for charts: at most a few thousand points, with slow rows of every cause from the whole run. The tuples are
    parallel."""

    row_iteration: tuple[int, ...] = ()
    row_ms: tuple[float | None, ...] = ()  # None, like all seconds here, if the log has no times
    row_cause: tuple[str | None, ...] = ()  # the main cause of a slow row; None for a normal one
    row_loss: tuple[float | None, ...] = ()
    row_mfu_printed: tuple[float | None, ...] = ()
    row_mfu_true: tuple[float | None, ...] = ()  # at the same peak, from the row's step time alone
    row_seconds: tuple[float | None, ...] = ()  # wall clock at the end of the row
    eval_iteration: tuple[int, ...] = ()
    eval_seconds: tuple[float | None, ...] = ()
    eval_train: tuple[float | None, ...] = ()
    eval_train_steps: tuple[int | None, ...] = ()  # as Loss.last_train_steps
    eval_val: tuple[float | None, ...] = ()
    eval_saved: tuple[bool, ...] = ()
    eval_bits: tuple[float | None, ...] = ()  # bits per byte, in addition to a loss
    eval_val_error: tuple[float | None, ...] = ()  # standard errors, if the trainer measures them
    save_ms: tuple[float, ...] = ()  # waits for a checkpoint in a ledger, including the final one
    save_seconds: tuple[float, ...] = ()  # wall clock at the end of each
    gpu_seconds: tuple[float, ...] = ()  # wall clock of each sensor reading
    gpu_mhz: tuple[float | None, ...] = ()
    gpu_watts: tuple[float | None, ...] = ()
    gpu_celsius: tuple[float | None, ...] = ()
    gpu_memory_gb: tuple[float | None, ...] = ()
    gpu_throttle: tuple[str | None, ...] = ()  # why the clock was throttled, separated by commas


class Diagnosis(Record):
    """What one run means. Build it with `nanopace.diagnose`."""

    source: Source
    facts: Mapping[str, Fact]
    step: Step
    slow_rows: tuple[SlowRow, ...]
    evaluations: Evaluations
    checkpoints: Checkpoints
    startup: Startup | None
    restarts: Restarts
    wall: Wall
    ahead: Ahead
    throughput: Throughput
    mfu: Mfu
    model: Model
    loss: Loss
    findings: tuple[Finding, ...]
    curves: Curves
    phases: Phases | None = None  # if the trainer measures them
    gpu_use: GpuUse | None = None  # if the trainer reads the card's sensors
    faults: Faults = Faults()
    notes: tuple[Note, ...] = ()  # printed by the trainer for the user
    samples: tuple[Sample, ...] = ()  # text generated by the model, newest last
    version: int = JSON_VERSION
    bill: Bill | None = None  # if prices are given (billing.py); the only key that is not in the JSON if unknown

    @property
    def timed(self) -> bool:
        """Whether the log has step times; if not, everything based on them is None (see untimed.py)."""
        return self.step.median_ms is not None

    def _repr_html_(self) -> str:
        """For notebooks."""
        return shown_in_a_notebook(self, "diagnosis_html")
