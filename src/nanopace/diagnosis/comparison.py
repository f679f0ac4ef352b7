"""The result of comparing two runs: codes and numbers, never sentences. The records are the JSON."""

from __future__ import annotations

from typing import Literal

from nanopace.diagnosis.result import JSON_VERSION, Diagnosis, Finding, Number
from nanopace.record import Record, shown_in_a_notebook
from nanopace.run import Metric

# Where the seconds come from: our ledger, the sum of a log's rows, or rows that omit an evaluation or a save.
TrainingClock = Literal["measured", "rows", "incomplete"]
# Printed by the trainers, from the scatter of the evaluations, one of each, or unknown because evaluations are too few.
ErrorBasis = Literal["standard_error", "scatter", "mixed", "unknown"]
Sooner = Literal["a", "b", "tie"]


class Change(Record):
    knob: str
    a: Number | bool
    b: Number | bool
    a_origin: str | None
    b_origin: str | None


class PairOf(Record):
    """A figure for both runs, and b over a."""

    a: float | None
    b: float | None
    ratio: float | None


class Decomposition(Record):
    """Exact: ln(tokens/s of b) - ln(tokens/s of a) = flops_per_token + utilisation + peak + gpu_count."""

    total: float | None
    flops_per_token: float | None
    utilisation: float | None
    peak: float | None  # of one card: 0 if equal; None if a card is unknown, and then part of utilisation
    gpu_count: float | None = None  # None if a count is unknown


class AtTokens(Record):
    """The lowest validation loss of each run up to that many tokens; likewise below."""

    tokens: float
    a: float
    b: float


class AtTime(Record):
    seconds: float
    a: float
    b: float


class AtFlops(Record):
    flops: float
    a: float
    b: float


class Reached(Record):
    """When a run first reached a loss, interpolated between the evaluations before and after."""

    seconds: float  # since the first step
    early_s: float | None  # when it reached the loss plus the uncertainty; None if that is unknown ...
    late_s: float | None  # ... and the loss minus the uncertainty; also None if it never did
    iteration: float
    after_iteration: int | None  # the evaluation before; None if the first one already reaches it
    by_iteration: int  # the evaluation that reaches it
    tokens: float | None
    clock: TrainingClock


class Arrival(Record):
    """When each run reached the lowest validation loss that both reached."""

    metric: Metric
    target: float
    error: float | None  # of the difference of two such losses
    error_basis: ErrorBasis
    a: Reached
    b: Reached
    ratio: float | None  # seconds of b over seconds of a; None if one reached it before its first step
    sooner: Sooner | None  # None if unclear


class Settling(Record):
    """A third run that would isolate one knob: run b with that knob set to a's value."""

    knob: str
    value: Number | bool


class Comparison(Record):
    """Run b compared with run a. Build it with `nanopace.compare`."""

    a: Diagnosis
    b: Diagnosis
    changed: tuple[Change, ...]
    unknown_knobs: tuple[str, ...]  # known in one run only
    parameters: PairOf
    flops_per_token: PairOf
    median_ms: PairOf
    micro_batch_ms: PairOf
    tokens_per_s: PairOf
    mfu_card: PairOf
    overhead_share: PairOf
    decomposition: Decomposition
    equal_tokens: tuple[AtTokens, ...]
    equal_time: tuple[AtTime, ...]
    equal_flops: tuple[AtFlops, ...]
    leader_tokens: Literal["a", "b", "tie"] | None  # at the most tokens that both reach: the lower loss so far
    leader_time: Literal["a", "b", "tie"] | None  # at the longest time that both reach; also None if unclear
    crossover_s: float | None  # when the later leader gets ahead at equal time; None if the lead never changes
    crossover_tokens: float | None
    unattributable: tuple[str, ...]  # knobs that changed together; each may have changed the utilisation
    settling: tuple[Settling, ...]
    findings: tuple[Finding, ...]
    arrival: Arrival | None = None  # None if validation losses or times are unknown or not comparable
    version: int = JSON_VERSION
    arrival_money: PairOf | None = None  # what each run cost until then, if prices are given; not in the JSON if None

    def _repr_html_(self) -> str:
        """For notebooks."""
        return shown_in_a_notebook(self, "comparison_html")
