"""What happened in one training run, without interpretation. Everything here is frozen.

Every source (a foreign log, our own ledger) becomes a `Run`, and the diagnosis sees nothing else. An unknown value is
absent or None, never guessed, and every fact names its origin.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Literal, overload

from nanopace.incidents import LossSpike, MicroBatch, Note, RankLag, StallReason
from nanopace.record import Record, shown_in_a_notebook

Origin = Literal["log", "config file", "flag", "inferred"]
FactValue = bool | int | float | str

Phase = Literal[
    "data", "step", "optimizer", "bus", "evaluation", "checkpoint", "compile", "startup", "logging", "stall", "other"
]
Ending = Literal["finished", "interrupted", "out_of_memory", "diverged", "corrupted", "error"]
RowLoss = Literal["step", "micro-batch", "smoothed"]  # of the whole step, its last micro-batch, or several steps
Metric = Literal["loss", "bpc", "bpb", "core"]  # bpc: bits per character, which some forks print as loss;
# core: a benchmark score, where higher is better: nanochat's CORE, or HellaSwag
CoverEvidence = Literal["tokens", "stamps", "first_row", "trainer", "clock"]  # see sources/infer/cover.py
Stage = Literal["base", "mid", "sft", "rl"]  # nanochat trains one model with a program for each

# How an inferred fact was inferred. Wording has a short phrase for each.
Because = Literal[
    "nanogpt_default",  # there was a config header or file, and it does not name the knob
    "first_loss",  # the loss of an untrained model is close to ln(vocabulary)
    "parameter_groups",  # from "num decayed parameter tensors" and its counterpart
    "model_shape",  # computed from layers, width, vocabulary and context
    "batch_shape",  # batch_size x gradient_accumulation_steps x block_size
    "mfu_time_parameters",  # printed mfu x peak x time / FLOPs per token
    "printed_rate",  # printed tokens per second x time
    "counted_tokens",  # the trainer counts all tokens so far, and not every step has the same number
    "printed_mfu",  # FLOPs of an iteration / (printed mfu x time)
    "printed_tflops",  # printed TFLOP/s per GPU / its tokens per second
    "row_spacing",  # the distance between rows, or between evaluations, in the log
    "repeated_line",  # every process prints a line that the log has several times
    "unnumbered_device",  # "using device: cuda": several processes would add a number
    "trainer",  # what this trainer always does, such as nanoGPT's peak of 312 TFLOP/s
]


class Fact(Record):
    """A value and where it comes from."""

    value: FactValue
    origin: Origin
    because: Because | None = None  # only for origin "inferred"


# Facts that are not knobs of the trainer. Knobs have nanoGPT's names (nanopace.config.KNOBS).
DERIVED_FACTS = (
    "tokens_per_iteration",  # over all GPUs
    "parameters",  # as nanoGPT counts: the tied head once, no position table
    "flops_per_token",  # 6 N + 12 L C T, forward and backward
    "flops_per_token_causal",  # the same with half of the attention term
    "gpu",  # the card's name as the log or the flag gives it
    "gpu_memory_gb",
    "gpu_count",
    "measured_tflops",  # what large matrix products reach on this card, measured by `nanopace tune`
    "world_size",  # processes that train together
    "printed_peak_tflops",  # what the printed mfu was divided by (nanoGPT: 312)
)


class Row(Record):
    """A log line with a time. In a very long log, a typical line that stands for `count` similar ones."""

    iteration: int
    ms: float
    loss: float | None = None
    mfu: float | None = None  # as printed, a fraction; None before the trainer measures it
    count: int = 1
    last_iteration: int = -1  # of the group; the same as `iteration` for a single row
    sum_ms: float = math.nan  # of the group; the same as `ms` for a single row
    at_s: float | None = None  # the line's time stamp, in seconds from an arbitrary zero

    def __post_init__(self) -> None:
        if self.last_iteration < 0:
            object.__setattr__(self, "last_iteration", self.iteration)
        if math.isnan(self.sum_ms):
            object.__setattr__(self, "sum_ms", self.ms)


class Rows(Sequence[Row]):
    """The rows of a run, stored as columns: a million rows take 56 MB instead of 500.

    Rows are sorted by their last iteration. In logs of many million rows, one row with `count` > 1 stands for many
    similar ones (see sources/fold.py). Usually these are neighbours. Where evaluations are frequent, one row stands for
    all plain rows of a stretch and another for all those with an evaluation, so these groups overlap. A row that is
    slow compared with similar ones always stays single.
    """

    __slots__ = ("at_s", "count", "iteration", "last_iteration", "loss", "mfu", "ms", "sum_ms")

    count: array[int]  # type: ignore[assignment]  # the column, in the place of Sequence.count

    def __init__(self, rows: Sequence[Row] = ()) -> None:
        self.iteration = array("q")
        self.last_iteration = array("q")
        self.count = array("q")
        self.ms = array("d")
        self.sum_ms = array("d")
        self.loss = array("d")  # nan where unknown
        self.mfu = array("d")  # nan where unknown
        self.at_s = array("d")  # nan where unknown
        for row in rows:
            self.append(row)

    def append(self, row: Row) -> None:
        """Add a row. Only for code that builds the rows: a finished Run no longer changes."""
        self.iteration.append(row.iteration)
        self.last_iteration.append(row.last_iteration)
        self.count.append(row.count)
        self.ms.append(row.ms)
        self.sum_ms.append(row.sum_ms)
        self.loss.append(math.nan if row.loss is None else row.loss)
        self.mfu.append(math.nan if row.mfu is None else row.mfu)
        self.at_s.append(math.nan if row.at_s is None else row.at_s)

    def cut(self, length: int) -> None:
        """Drop all rows after the first `length`. Only for code that builds the rows."""
        for column in self.__slots__:
            del getattr(self, column)[length:]

    def __len__(self) -> int:
        return len(self.ms)

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> Rows: ...
    def __getitem__(self, index: int | slice) -> Row | Rows:
        if isinstance(index, slice):
            part = Rows()
            for column in self.__slots__:
                setattr(part, column, getattr(self, column)[index])
            return part
        loss, mfu, at_s = self.loss[index], self.mfu[index], self.at_s[index]
        return Row(
            iteration=self.iteration[index],
            ms=self.ms[index],
            loss=None if math.isnan(loss) else loss,
            mfu=None if math.isnan(mfu) else mfu,
            count=self.count[index],
            last_iteration=self.last_iteration[index],
            sum_ms=self.sum_ms[index],
            at_s=None if math.isnan(at_s) else at_s,
        )

    def __iter__(self) -> Iterator[Row]:
        return (self[index] for index in range(len(self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rows) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]  # grows while it is built

    @property
    def lines(self) -> int:
        """How many log lines these rows stand for."""
        return sum(self.count)

    def mixtures(self) -> list[range]:
        """Row indices of each stretch of a very long log in which groups overlap."""
        found: list[range] = []
        if max(self.count, default=1) == 1:
            return found
        end, reached_by_next = len(self), self.iteration[-1]
        for index, first, last in zip(
            reversed(range(len(self))), reversed(self.iteration), reversed(self.last_iteration), strict=True
        ):
            if last < reached_by_next:
                if end - index > 2:
                    found.append(range(index + 1, end))
                end, reached_by_next = index + 1, first
            elif first < reached_by_next:
                reached_by_next = first
        if end > 1:
            found.append(range(end))
        return found[::-1]


class Evaluation(Record):
    """An evaluation as the log reports it. In a very long log, the last of `count` similar ones."""

    iteration: int
    train: float | None
    val: float | None
    metric: Metric = "loss"
    row: int | None = (
        None  # index of the row whose time contains it; None if it fell between rows or outside their clock
    )
    ms: float | None = None  # only if the trainer measured it (ours does)
    count: int = 1
    first_iteration: int = -1  # of the group; the same as `iteration` for a single one
    lowest: tuple[int, float] | None = None  # iteration and val of the best in the group; None for a single one
    val_error: float | None = None  # standard error
    train_steps: int | None = None  # `train` is the mean of this many steps before it; None: measured like `val`
    bits_per_byte: float | None = None  # the same loss as `val`, if the trainer knows the number of bytes
    at_s: float | None = None  # the line's time stamp, on the same clock as the rows'

    def __post_init__(self) -> None:
        if self.first_iteration < 0:
            object.__setattr__(self, "first_iteration", self.iteration)

    @property
    def best(self) -> tuple[int, float | None]:
        """The iteration and loss of the best evaluation in the group."""
        return self.lowest or (self.iteration, self.val)


class Checkpoint(Record):
    """A checkpoint that was written. In a very long log, the last of `count` similar ones."""

    iteration: int
    path: str | None = None
    row: int | None = None
    ms: float | None = None  # how long training paused; only if the trainer measured it
    background_ms: float | None = None  # time spent writing while training continued
    count: int = 1
    first_iteration: int = -1  # of the group; the same as `iteration` for a single one

    def __post_init__(self) -> None:
        if self.first_iteration < 0:
            object.__setattr__(self, "first_iteration", self.iteration)


class Restart(Record):
    """The process ended, and a new one resumed from a checkpoint."""

    row: int  # index of the first row of the new process
    iteration: int  # where it resumed
    reached: int  # the last iteration that the previous process is known to have finished
    lost: Rows = Rows()  # rows of iterations that were repeated; not in Run.rows
    beside_ms: float = 0.0  # measured time of the evaluations and checkpoints among them


class Rollback(Record):
    """The loss was no longer finite, so the same process went back to a checkpoint and continued with other data."""

    row: int  # index of the first row after it
    iteration: int  # where it went back to
    failed_at: int  # the last iteration that failed
    lost: Rows = Rows()  # as in Restart
    beside_ms: float = 0.0
    data_offset: int = 1  # number of the data order that it continued with


class Span(Record):
    """Time that the trainer measured as one phase (from our ledger)."""

    phase: Phase
    iteration: int
    ms: float
    background: bool = False
    reason: StallReason | None = None  # of a stall


class Sample(Record):
    """Text that the model generated during training."""

    iteration: int  # steps done so far
    text: str


class Unread(Record):
    """Lines that look like the trainer's output but could not be read."""

    count: int
    line: int  # line number of the first one, counting from 1
    text: str  # the first one, shortened


class Caveat(Record):
    """A warning that a figure in this log does not mean what it seems to: a finding's code and its numbers."""

    code: str
    numbers: Mapping[str, float | int | str | None] = MappingProxyType({})


class OtherRanks(Record):
    """Several ranks printed the same rows. The run contains the rows of one rank; the others were left out."""

    rank: int  # the rank whose rows are in the run
    ranks: int  # number of ranks, including that one
    rows: int  # number of rows of the other ranks


class GpuUse(Record):
    """What the card's sensors reported during training (our own trainer). None: unknown."""

    samples: int = 0
    sm_mhz: float | None = None  # median
    memory_mhz: float | None = None  # median
    watts: float | None = None  # median
    celsius: float | None = None  # highest
    utilization: float | None = None  # median; the share of time, not of the card's compute
    memory_used_gb: float | None = None  # maximum
    throttled: Mapping[str, float] = MappingProxyType({})  # share of the samples, by reason
    energy_kwh: float | None = None
    training_samples: int = 0  # samples between the first and the last step of their process
    at_power_limit: int = 0  # how many of those were at the power limit
    limited_mhz: float | None = None  # median SM clock at the power limit
    limited_watts: float | None = None  # median power at the limit


class GpuReading(Record):
    """One reading of the card's sensors."""

    seconds: float  # on the wall clock, over all processes of the run
    sm_mhz: float | None = None
    watts: float | None = None
    celsius: float | None = None
    memory_used_gb: float | None = None
    throttle: str | None = None  # as in the ledger's gpu event


class Run(Record):
    """What happened in a training run. Get one from `nanopace.open_run`."""

    name: str  # the file's name, with the run's number if the file has several
    format: str  # of the log: see sources/formats/table.py. Never decide by it: what the figures mean is stated below
    rows: Rows
    evaluations: tuple[Evaluation, ...] = ()
    checkpoints: tuple[Checkpoint, ...] = ()
    restarts: tuple[Restart, ...] = ()
    rollbacks: tuple[Rollback, ...] = ()
    spans: tuple[Span, ...] = ()
    facts: Mapping[str, Fact] = MappingProxyType({})
    trainer: str = "nanoGPT"
    row_contains_evaluation: bool = True  # nanoGPT's clock runs during evaluations and checkpoints, nanochat's does not
    mfu_smoothing: float | None = None  # weight of the past in the printed mfu: 0.9 in nanoGPT; None: not smoothed
    row_loss: RowLoss = "micro-batch"  # what the loss of a row refers to
    nanogpt_knobs: bool = True  # the trainer's settings are nanoGPT's knobs
    gpt2_shape: bool = True  # tokens and FLOPs follow from batch, layers and width, if these are known
    compiles: bool = True  # the trainer can compile the model
    has_stages: bool = False  # the trainer trains a model in several stages, like nanochat
    stops_before_max_iters: bool = False  # the trainer counts iterations from 0 to max_iters - 1
    cools_down: bool = False  # the trainer's learning rate falls to the end, and the loss then falls faster than before
    wall_ms: float | None = None  # measured from start to end, only by our own trainer
    gpu_use: GpuUse | None = None
    gpu_readings: tuple[GpuReading, ...] = ()  # thinned out, but with the extremes of every stretch
    ending: Ending | None = None  # how the run ended, according to the log; None if the log just stops
    ended_at: int | None = None  # the last iteration, if the end names it; it may come after the last row
    conflicts: tuple[tuple[str, FactValue, FactValue], ...] = ()  # (knob, used, contradicted)
    skipped: tuple[int, ...] = ()  # iterations whose update was skipped, in the order they ran
    spikes: tuple[LossSpike, ...] | None = None  # None if the trainer does not watch its loss
    micro_batches: tuple[MicroBatch, ...] = ()
    rank_lags: tuple[RankLag, ...] = ()  # the most frequently slowest rank comes first
    notes: tuple[Note, ...] = ()
    samples: tuple[Sample, ...] = ()  # only the newest, in order
    stage: Stage | None = None
    rows_cover: int = 1  # iterations that one printed time covers; the times in `rows` are already divided by it
    rows_cover_shown_by: CoverEvidence | None = None  # how the log shows that it is more than 1
    unread: Unread | None = None  # lines that look like evaluations
    other_ranks: OtherRanks | None = None
    rows_of_others: int = 0  # rows left out because they belong to other processes that printed between these rows
    runs_of_file: int | None = None  # on the first run of a file with too many: only the first and last are kept
    truncated: bool = False  # the compressed file ends before its log does
    quoted: tuple[int, int] | None = None  # (lines of the log, lines of the file), if prose quotes a log
    told_training_s: float | None = None  # nanochat's "total time": training steps only, without the first ones
    told_tokens: int | None = None  # per step, from the printed tokens per second, if the log's batch contradicts it
    untimed: Mapping[Stage, int] = MappingProxyType({})  # rows without a time after the timed ones, by stage
    rates: tuple[tuple[int, float], ...] = ()  # learning rates as printed, by iteration: at most a few hundred of them
    untimed_rows: Rows = Rows()  # iterations and losses of a log without any times; `rows` is then empty
    fetches: tuple[int, ...] = ()  # iterations of the rows in whose time data was fetched over the network
    caveats: tuple[Caveat, ...] = ()
    clock_ms: float = 0.0  # resolution of the clock whose differences are the rows' times

    def value(self, name: str) -> FactValue | None:
        """The value of a fact, or None if unknown."""
        fact = self.facts.get(name)
        return None if fact is None else fact.value

    @property
    def logged(self) -> Rows:
        """The rows that have losses: `rows`, or `untimed_rows` if the log has no times."""
        return self.rows if len(self.rows) else self.untimed_rows

    @property
    def on_cpu(self) -> bool:
        """Whether the run is known to have used no GPU."""
        return self.value("device") == "cpu"

    def number(self, name: str) -> float | None:
        """The value of a fact if it is a number, else None."""
        value = self.value(name)
        return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None

    def _repr_html_(self) -> str:
        """For notebooks."""
        return shown_in_a_notebook(self, "run_html")
