"""What a run means: codes and numbers, never sentences.

The records are the JSON: `views/json.py` writes each field under its own name, and docs/json-format.md explains
them. Shares and mfu are fractions, times carry their unit in their name, unknown is None.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from nanopace.incidents import LossSpike, MicroBatch, Note, RankLag, StallReason
from nanopace.record import Record, shown_in_a_notebook
from nanopace.run import Ending, Fact, GpuUse, Metric, Sample, Stage

JSON_VERSION = 1
WIDE = 0.2  # an interval wider than this share of its figure is shown

Cause = Literal["compile", "evaluation", "checkpoint", "restart", "periodic", "stall"]
Basis = Literal["measured", "stamps", "upper_bound", "unknown"]  # stamps: of the log's lines
Verdict = Literal["near_limit", "good", "power_limited", "half_idle", "mostly_idle", "above_peak"]
FigureBasis = Literal["flops", "printed"]  # of tokens and FLOPs per token, or of the mfu that the trainer prints

Number = float | int | str | None


class Finding(Record):
    """One thing worth saying. `numbers` are what its sentence needs (FINDINGS in wording/sentences.py)."""

    code: str
    numbers: Mapping[str, Number] = MappingProxyType({})
    saves_s: float | None = None  # advice only: what following it would have saved in this run
    saves_share: float | None = None  # of this run's wall clock
    advice: bool = False


class Source(Record):
    """Which log this is, and how far it goes."""

    name: str
    format: str
    rows: int  # lines of the log with a time; where none has one, those with a loss
    first_iteration: int
    last_iteration: int
    log_interval: int | None
    ending: Ending | None
    stage: Stage | None = None  # of a trainer that has several


class Level(Record):
    """A stretch of the run with one typical step time."""

    first_iteration: int
    last_iteration: int
    median_ms: float


class Step(Record):
    """What a normal step takes."""

    median_ms: float | None  # None where the log has no times
    spread: float | None  # scaled MAD of the normal rows as a fraction of the median
    normal_rows: int
    uneven_rows: int  # outside of the noise, but too little to be called slow
    levels: tuple[Level, ...]  # one unless the baseline shifted
    drift_share: float | None  # of a steady creep: its slope over the whole run, as a fraction; None if there is none
    change_share: float | None = None  # last fifth over first, less 1; None below 5% or where it may be chance
    first_fifth_ms: float | None = None  # median of the first fifth of the plain rows; None of fewer than ten
    last_fifth_ms: float | None = None
    low_ms: float | None = None  # a tenth of the normal rows is at or below this ...
    high_ms: float | None = None  # ... and a tenth above this


class SlowRow(Record):
    """A row that took at least a quarter longer than the steps around it."""

    iteration: int
    ms: float
    excess_ms: float  # over the step time around it
    causes: tuple[Cause, ...]
    parts_ms: Mapping[str, float]  # by cause, as far as the log can tell them apart; sums to excess_ms
    count: int = 1  # in a very long log this may be the last of so many, with what one of them took


class Evaluations(Record):
    """How many there were, and what one costs."""

    count: int  # after training began, a final one too; without those before the first step of a process
    visible: int  # those inside the time of a row, or that the trainer measured
    hidden: int  # those between rows, or outside of the rows' clock
    each_ms: float | None  # of one evaluation; contains the checkpoint where the two cannot be separated
    interval: int | None
    contains_checkpoint: bool
    predicted_ms: float | None  # 2 x eval_iters forward passes at a third of a micro-step; None without the config
    low_ms: float | None = None  # 80% interval of each_ms; where stretches of the run differ, it spans them
    high_ms: float | None = None


class Checkpoints(Record):
    """How many were written, what one costs, and how that is known."""

    count: int
    each_ms: float | None  # if basis is upper_bound: at most this
    basis: Basis
    saved_rows: int  # evaluation rows with a save ...
    unsaved_rows: int  # ... and without: the natural experiment
    background_ms: float | None = None
    low_ms: float | None = None  # 80% interval of what one costs; None where nothing but a bound is known
    high_ms: float | None = None
    at_least_ms: float | None = None  # as the first row bounds the evaluation; only where each_ms is not measured

    @property
    def wide_interval(self) -> tuple[float, float] | tuple[None, None]:
        """The interval, if it is wide enough to be shown."""
        if self.each_ms is None or self.low_ms is None or self.high_ms is None:
            return None, None
        wide = self.high_ms - self.low_ms > WIDE * self.each_ms
        return (self.low_ms, self.high_ms) if wide else (None, None)


class Startup(Record):
    """The first row: one step, and what came before it."""

    total_ms: float
    step_ms: float
    evaluation_ms: float | None
    compile_ms: float | None  # compile and warm-up; None where the evaluation beside it is unknown


class Restarts(Record):
    """How often training was started again, and what that cost."""

    count: int
    lost_iterations: int
    lost_s: float | None  # iterations done again, and start-ups after the first; None where the log has no times


class Wall(Record):
    """Every second of the run. The parts sum to total_s; a None part is in another, or unknown (the findings say)."""

    total_s: float | None
    training_s: float | None
    evaluation_s: float | None
    checkpoint_s: float | None
    startup_s: float | None
    stall_s: float | None
    restart_s: float | None
    other_s: float | None  # logging and the like, which our trainer measures
    unknown_s: float | None  # None: the log's clock leaves out evaluations of unknown cost
    overhead_share: float | None  # evaluation and checkpoints over the time in which the machine was awake
    goodput: float | None  # training over that time
    measured: bool  # from a ledger's own clock, not reconstructed from rows
    suspended_s: float | None = 0.0  # the machine slept, or the run was stopped by Ctrl-Z
    rollback_s: float | None = 0.0  # steps that were done again with other data

    @property
    def awake_s(self) -> float:
        """What shares are of: no setting makes a machine sleep less. 0 where the time is unknown."""
        return (self.total_s or 0.0) - (self.suspended_s or 0.0)


class Phases(Record):
    """What a ledger says of the inside of a run. The first three are training_s of the wall, the next two its startup_s
    but for what the first steps took beyond a step."""

    data_s: float  # waiting for tokens
    forward_backward_s: float
    optimizer_s: float
    startup_s: float
    compile_s: float
    logging_s: float
    other_s: float
    checkpoint_background_s: float  # in the background; costs no wall clock


class Stall(Record):
    """A stall that the trainer reported."""

    iteration: int
    reason: StallReason
    length_s: float
    end_s: float  # on the wall clock


class Setback(Record):
    """The loss was not finite any more, and training went back to a checkpoint."""

    iteration: int
    failed_at: int
    lost_iterations: int
    lost_s: float


class Faults(Record):
    """What went wrong without ending the run, as its trainer reports it; loss spikes are looked for in any log."""

    stalls: tuple[Stall, ...] = ()
    skipped_steps: int = 0
    skipped_streaks: int = 0
    skipped_iterations: tuple[int, ...] = ()  # the first of them
    spikes: tuple[LossSpike, ...] = ()
    rollbacks: tuple[Setback, ...] = ()
    micro_batches: tuple[MicroBatch, ...] = ()
    ranks: tuple[RankLag, ...] = ()


class Ahead(Record):
    """What is to come, at this pace, overhead included."""

    seconds_per_1000: float | None  # None where no row is a plain step
    max_iters: int | None
    remaining_iterations: int | None
    eta_s: float | None
    overhead_share: float | None = None  # of that time: evaluation and checkpoints at their interval
    eta_low_s: float | None = None  # 80% interval of eta_s; None where too little was seen (see time_left.py)
    eta_high_s: float | None = None


class Throughput(Record):
    """From normal rows only."""

    tokens_per_s: float | None
    tokens_per_s_overall: float | None  # with evaluation, checkpoints and stalls
    tokens_per_day: float | None
    tokens_per_iteration: float | None
    tokens_total: float | None
    micro_batch_ms: float | None
    micro_batch_sequences: int | None
    told_training_s: float | None = None  # the trainer's own count of its steps, without the first ones


class Mfu(Record):
    """How much of a card was used: as printed, cleansed, and of the card that ran."""

    printed_last: float | None
    steady_printed: float | None  # as printed, but without the rows that contain evaluation
    printed_peak_tflops: float | None  # what the trainer divided by
    achieved_tflops: float | None
    achieved_tflops_causal: float | None  # counting only the half of attention that is computed
    card: float | None  # of the card that ran: dense, with FP32 accumulate; None where it may be several
    card_causal: float | None
    card_name: str | None
    card_tflops: float | None
    card_verified: str | None  # how far to trust the table's row
    verdict: Verdict | None
    card_low: float | None = None  # where the card may be several with different peaks: of the highest of them
    card_high: float | None = None  # of the lowest of them
    card_precision: Literal["bf16", "fp16", "fp32"] | None = None  # the arithmetic of `card_tflops`
    steady_basis: FigureBasis | None = None
    achieved_basis: FigureBasis | None = None


class Model(Record):
    """The size of the model, and what a token costs."""

    parameters: float | None
    flops_per_token: float | None
    flops_per_token_causal: float | None


class Forecast(Record):
    """Where more tokens would take the validation loss: a + b * iteration^-c, and its 80% interval."""

    iteration: int
    loss: float
    low: float
    high: float


class Loss(Record):
    """Where the loss stands, and where it goes."""

    metric: Metric
    best_val: float | None
    best_val_iteration: int | None
    best_val_perplexity: float | None  # exp(loss); None for bits per byte
    last_val: float | None
    last_val_iteration: int | None
    last_train: float | None  # of the last evaluation
    gap: float | None  # last validation less last training loss
    gap_trend: float | None  # change of the gap over the last half of the run
    saved_best: bool | None  # whether a checkpoint was written at the best evaluation
    noise: float | None  # standard deviation of the printed training loss around its trend
    forecast: tuple[Forecast, ...]  # at 1.5 x and 2 x the iterations, where a trend can be fitted
    best_val_error: float | None = None  # standard errors, where the trainer measures them
    last_val_error: float | None = None
    core: float | None = None  # the last CORE metric of nanochat, or ChatCORE where it is fine-tuned; higher is better
    core_iteration: int | None = None
    best_core: float | None = None
    best_core_iteration: int | None = None
    last_train_steps: int | None = None  # last_train is the mean of so many steps before; None: measured like last_val


class Curves(Record):
    """For charts: at most a few thousand points, slow rows of every cause and from all of the run. Parallel tuples."""

    row_iteration: tuple[int, ...] = ()
    row_ms: tuple[float | None, ...] = ()  # None, as all seconds here, where the log has no times
    row_cause: tuple[str | None, ...] = ()  # the main cause of a slow row, None for a normal one
    row_loss: tuple[float | None, ...] = ()
    row_mfu_printed: tuple[float | None, ...] = ()
    row_mfu_true: tuple[float | None, ...] = ()  # of the same peak, from the row's step time alone
    row_seconds: tuple[float | None, ...] = ()  # wall clock at the end of the row
    eval_iteration: tuple[int, ...] = ()
    eval_seconds: tuple[float | None, ...] = ()
    eval_train: tuple[float | None, ...] = ()
    eval_train_steps: tuple[int | None, ...] = ()  # as Loss.last_train_steps
    eval_val: tuple[float | None, ...] = ()
    eval_saved: tuple[bool, ...] = ()
    eval_bits: tuple[float | None, ...] = ()  # bits per byte, beside a loss
    eval_val_error: tuple[float | None, ...] = ()  # standard errors, where the trainer measures them
    save_ms: tuple[float, ...] = ()  # waits for a checkpoint in a ledger, also at the very end
    save_seconds: tuple[float, ...] = ()  # wall clock at the end of each
    gpu_seconds: tuple[float, ...] = ()  # wall clock of a reading of the card's sensors
    gpu_mhz: tuple[float | None, ...] = ()
    gpu_watts: tuple[float | None, ...] = ()
    gpu_celsius: tuple[float | None, ...] = ()
    gpu_memory_gb: tuple[float | None, ...] = ()
    gpu_throttle: tuple[str | None, ...] = ()  # why the clock was held back, by commas


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
    phases: Phases | None = None  # where the trainer measures them
    gpu_use: GpuUse | None = None  # where the trainer asks the card's sensors
    faults: Faults = Faults()
    notes: tuple[Note, ...] = ()  # of the trainer, for a person
    samples: tuple[Sample, ...] = ()  # of the model's text, the newest last
    version: int = JSON_VERSION

    @property
    def timed(self) -> bool:
        """Whether the log has step times; else all that rests on them is None (see untimed.py)."""
        return self.step.median_ms is not None

    def _repr_html_(self) -> str:
        """For notebooks."""
        return shown_in_a_notebook(self, "diagnosis_html")
