"""What happened in one training run: frozen, complete, and without opinion.

A `Run` is what every source (a foreign log, our own ledger) is turned into, and all that the diagnosis sees.
What is unknown is absent or None, never a guess, and every known fact says where it comes from.
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
    "data", "step", "optimizer", "evaluation", "checkpoint", "compile", "startup", "logging", "stall", "other"
]
Ending = Literal["finished", "interrupted", "out_of_memory", "diverged", "error"]
RowLoss = Literal["step", "micro-batch", "smoothed"]  # of a whole step, of its last micro-batch, or over several steps
Metric = Literal["loss", "bpc", "bpb", "core"]  # bpc: bits per character, which some forks print as their loss;
# core: the score of a benchmark, which rises: nanochat's CORE, or HellaSwag
CoverEvidence = Literal["tokens", "stamps", "first_row", "trainer", "clock"]  # see sources/infer/cover.py
Stage = Literal["base", "mid", "sft", "rl"]  # of nanochat, which trains one model in several programs

# How an inferred fact was inferred. Wording has a short phrase for each.
Because = Literal[
    "nanogpt_default",  # a config header or file was seen that does not name the knob
    "first_loss",  # the loss of an untrained model is close to ln(vocabulary)
    "parameter_groups",  # from "num decayed parameter tensors" and its twin
    "model_shape",  # computed from layers, width, vocabulary and context
    "batch_shape",  # batch_size x gradient_accumulation_steps x block_size
    "mfu_time_parameters",  # printed mfu x peak x time / FLOPs per token
    "printed_rate",  # printed tokens per second x time
    "printed_tflops",  # printed TFLOP/s of a GPU over its tokens per second
    "row_spacing",  # the distance of the rows, or of the evaluations, in the log
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
    "parameters",  # nanoGPT's count: with the tied head once, without the position table
    "flops_per_token",  # 6 N + 12 L C T, forward and backward
    "flops_per_token_causal",  # the same with half of the attention term
    "gpu",  # the card's name as the log or the flag gives it
    "gpu_memory_gb",
    "gpu_count",
    "measured_tflops",  # that large matrix products reach on this card, as `nanopace tune` found there
    "world_size",  # processes that train together
    "printed_peak_tflops",  # what the printed mfu was divided by (nanoGPT: 312)
)


class Row(Record):
    """One line of the log that has a time; or, in a very long log, the typical one of `count` like it."""

    iteration: int
    ms: float
    loss: float | None = None
    mfu: float | None = None  # as printed, a fraction; None before the trainer measures it
    count: int = 1
    last_iteration: int = -1  # of the group; the same as `iteration` for a single row
    sum_ms: float = math.nan  # of the group; the same as `ms` for a single row
    at_s: float | None = None  # the line's own time stamp, in seconds since any fixed moment

    def __post_init__(self) -> None:
        if self.last_iteration < 0:
            object.__setattr__(self, "last_iteration", self.iteration)
        if math.isnan(self.sum_ms):
            object.__setattr__(self, "sum_ms", self.ms)


class Rows(Sequence[Row]):
    """The rows of a run, by column. A million rows are 56 MB, not 500.

    Rows are in the order of their last iteration, which rises. In logs of many million rows those that are alike stand
    as one with `count` > 1 (see sources/fold.py): neighbours, or, where evaluations are many, all plain rows of a part
    and all that contain an evaluation, so that such groups overlap. What is slow among its like is always single.
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
        """Only for the builder of the rows: a Run that is handed out no longer changes."""
        self.iteration.append(row.iteration)
        self.last_iteration.append(row.last_iteration)
        self.count.append(row.count)
        self.ms.append(row.ms)
        self.sum_ms.append(row.sum_ms)
        self.loss.append(math.nan if row.loss is None else row.loss)
        self.mfu.append(math.nan if row.mfu is None else row.mfu)
        self.at_s.append(math.nan if row.at_s is None else row.at_s)

    def cut(self, length: int) -> None:
        """Drop all rows after the first `length`; only for the builder, as append."""
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
        """How many lines of the log these rows stand for."""
        return sum(self.count)

    def mixtures(self) -> list[range]:
        """Where groups overlap: indices of the rows of each part of a very long log that is folded like with like."""
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
    """One evaluation, as the log reports it; or, in a very long log, the last of `count` like it."""

    iteration: int
    train: float | None
    val: float | None
    metric: Metric = "loss"
    row: int | None = (
        None  # index of the row whose time contains it; None if it fell between rows or outside their clock
    )
    ms: float | None = None  # only where the trainer measured it (our own)
    count: int = 1
    first_iteration: int = -1  # of the group; the same as `iteration` for a single one
    lowest: tuple[int, float] | None = None  # iteration and val of the group's best; None for a single one
    val_error: float | None = None  # standard error
    train_steps: int | None = None  # `train` is the mean of so many steps before it; None: measured like `val`
    bits_per_byte: float | None = None  # the same as `val`, where the trainer knows its bytes
    at_s: float | None = None  # the line's own time stamp, on the clock of the rows'

    def __post_init__(self) -> None:
        if self.first_iteration < 0:
            object.__setattr__(self, "first_iteration", self.iteration)

    @property
    def best(self) -> tuple[int, float | None]:
        """The iteration and the loss of the best one that this stands for."""
        return self.lowest or (self.iteration, self.val)


class Checkpoint(Record):
    """One checkpoint written; or, in a very long log, the last of `count` like it."""

    iteration: int
    path: str | None = None
    row: int | None = None
    ms: float | None = None  # the stall of training, only where the trainer measured it
    background_ms: float | None = None  # written beside training
    count: int = 1
    first_iteration: int = -1  # of the group; the same as `iteration` for a single one

    def __post_init__(self) -> None:
        if self.first_iteration < 0:
            object.__setattr__(self, "first_iteration", self.iteration)


class Restart(Record):
    """The process ended and training went on from a checkpoint."""

    row: int  # index of the first row of the new process
    iteration: int  # where it went on
    reached: int  # the last iteration that the process before is known to have done
    lost: Rows = Rows()  # rows of iterations that were done again; not in Run.rows
    beside_ms: float = 0.0  # what the trainer measured of evaluations and checkpoints among them


class Rollback(Record):
    """No loss was finite any more, and the same process went back and met other data."""

    row: int  # index of the first row after it
    iteration: int  # where it went back to
    failed_at: int  # the last iteration that failed
    lost: Rows = Rows()  # as in Restart
    beside_ms: float = 0.0
    data_offset: int = 1  # which order of the data it went on with


class Span(Record):
    """Time that the trainer measured as one phase (our ledger)."""

    phase: Phase
    iteration: int
    ms: float
    background: bool = False
    reason: StallReason | None = None  # of a stall


class Sample(Record):
    """Text that the model wrote while it trained."""

    iteration: int  # the steps that it had done
    text: str


class Unread(Record):
    """Lines that look like something of the trainer's and could not be read."""

    count: int
    line: int  # number of the first one in the file, from 1 on
    text: str  # of the first one, shortened


class Caveat(Record):
    """What a figure of this log does not mean, though it looks like it: a finding's code and its numbers."""

    code: str
    numbers: Mapping[str, float | int | str | None] = MappingProxyType({})


class OtherRanks(Record):
    """Several ranks printed the same rows: those of one are in the run, the others' were left out."""

    rank: int  # whose rows are in the run
    ranks: int  # with it
    rows: int  # of the others


class GpuUse(Record):
    """What the card's own sensors said while it trained (our own trainer); None is unknown."""

    samples: int = 0
    sm_mhz: float | None = None  # median
    memory_mhz: float | None = None  # median
    watts: float | None = None  # median
    celsius: float | None = None  # highest
    utilization: float | None = None  # median; of the time, not of the card's arithmetic
    memory_used_gb: float | None = None  # most
    throttled: Mapping[str, float] = MappingProxyType({})  # by reason, the share of the samples
    energy_kwh: float | None = None
    training_samples: int = 0  # from the first step of their process to its last
    at_power_limit: int = 0  # of those
    limited_mhz: float | None = None  # median clock of the multiprocessors at the power limit
    limited_watts: float | None = None  # median there


class GpuReading(Record):
    """The card's sensors at one moment."""

    seconds: float  # on the wall clock, over all processes of the run
    sm_mhz: float | None = None
    watts: float | None = None
    celsius: float | None = None
    memory_used_gb: float | None = None
    throttle: str | None = None  # as the ledger's gpu event has it


class Run(Record):
    """What happened. Build it with `nanopace.open_run`."""

    name: str  # the file's name, and which run it is where a file has several
    format: str  # of the log: see sources/formats/table.py. Ask it nothing: what its figures mean is below
    rows: Rows
    evaluations: tuple[Evaluation, ...] = ()
    checkpoints: tuple[Checkpoint, ...] = ()
    restarts: tuple[Restart, ...] = ()
    rollbacks: tuple[Rollback, ...] = ()
    spans: tuple[Span, ...] = ()
    facts: Mapping[str, Fact] = MappingProxyType({})
    trainer: str = "nanoGPT"
    row_contains_evaluation: bool = (
        True  # nanoGPT's clock runs on during evaluation and checkpoint; nanochat's does not
    )
    mfu_smoothing: float | None = (
        None  # weight of the past in the printed mfu: 0.9 in nanoGPT, None where it is not smoothed
    )
    row_loss: RowLoss = "micro-batch"  # what the loss of a row is of
    nanogpt_knobs: bool = True  # the trainer is set by nanoGPT's knobs
    gpt2_shape: bool = True  # tokens and FLOPs follow from batch, layers and width, where these are known
    compiles: bool = True  # the trainer can compile the model
    has_stages: bool = False  # the trainer trains a model in several stages, as nanochat does
    wall_ms: float | None = None  # measured from start to end, only by our own trainer
    gpu_use: GpuUse | None = None
    gpu_readings: tuple[GpuReading, ...] = ()  # thinned out; the extremes of every stretch are among them
    ending: Ending | None = None  # how the log says that it ended; None if it just stops
    conflicts: tuple[tuple[str, FactValue, FactValue], ...] = ()  # (knob, used, contradicted)
    skipped: tuple[int, ...] = ()  # iterations whose update was left out, in the order in which it happened
    spikes: tuple[LossSpike, ...] | None = None  # None where the trainer does not watch its loss
    micro_batches: tuple[MicroBatch, ...] = ()
    rank_lags: tuple[RankLag, ...] = ()  # the rank that was the slowest most often is first
    notes: tuple[Note, ...] = ()
    samples: tuple[Sample, ...] = ()  # the newest of them, as they came
    stage: Stage | None = None
    rows_cover: int = 1  # iterations that a printed time covers; the rows here have been divided by it
    rows_cover_shown_by: CoverEvidence | None = None  # how the log shows that it is more than one
    unread: Unread | None = None  # lines that look like evaluations
    other_ranks: OtherRanks | None = None
    rows_of_others: int = 0  # left out: they are of processes that printed between the rows of this one
    runs_of_file: int | None = None  # where a file has too many, on the first: only the first and the last are kept
    truncated: bool = False  # the compressed file ends before its log does
    quoted: tuple[int, int] | None = None  # (lines of the log, lines of the file): prose that quotes a log
    told_training_s: float | None = None  # nanochat's "total time": steps alone, without the first ones
    told_tokens: int | None = None  # of a step, by the printed tokens per second, where the log's own batch denies it
    untimed: Mapping[Stage, int] = MappingProxyType({})  # rows without a time that follow, by stage
    untimed_rows: Rows = Rows()  # iterations and losses of a log that has no times at all; `rows` is then empty
    caveats: tuple[Caveat, ...] = ()
    clock_ms: float = 0.0  # the times of rows are differences of a clock that is rounded to this

    def value(self, name: str) -> FactValue | None:
        """A fact's value, or None where it is unknown."""
        fact = self.facts.get(name)
        return None if fact is None else fact.value

    @property
    def logged(self) -> Rows:
        """The rows, with or without a time: what the loss is read from."""
        return self.rows if len(self.rows) else self.untimed_rows

    @property
    def on_cpu(self) -> bool:
        """Whether it is known that no card ran."""
        return self.value("device") == "cpu"

    def number(self, name: str) -> float | None:
        """A fact's value where it is a number, or None."""
        value = self.value(name)
        return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None

    def _repr_html_(self) -> str:
        """For notebooks."""
        return shown_in_a_notebook(self, "run_html")
