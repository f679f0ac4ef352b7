"""What two runs mean beside each other: codes and numbers, never sentences. The records are the JSON."""

from __future__ import annotations

from typing import Literal

from nanopace.diagnosis.result import JSON_VERSION, Diagnosis, Finding, Number
from nanopace.record import Record, shown_in_a_notebook
from nanopace.run import Metric

# Where the seconds come from: our ledger; the rows of a log, added up; or rows that leave out an evaluation or a save.
TrainingClock = Literal["measured", "rows", "incomplete"]
# Printed by the trainers; from the scatter of the evaluations; one of each; unknown, since evaluations are too few.
ErrorBasis = Literal["standard_error", "scatter", "mixed", "unknown"]
Sooner = Literal["a", "b", "tie"]


class Change(Record):
    knob: str
    a: Number | bool
    b: Number | bool
    a_origin: str | None
    b_origin: str | None


class PairOf(Record):
    """A figure of both runs, and b over a."""

    a: float | None
    b: float | None
    ratio: float | None


class Decomposition(Record):
    """Exact: ln(tokens/s of b) - ln(tokens/s of a) = flops_per_token + utilisation + peak + gpu_count."""

    total: float | None
    flops_per_token: float | None
    utilisation: float | None
    peak: float | None  # of one card: 0 on the same; None where a card is unknown, and then it is inside utilisation
    gpu_count: float | None = None  # None where a count is unknown


class AtTokens(Record):
    """The lowest validation losses of both up to there; the same below."""

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
    """When a run was first at or below a loss: straight between the evaluations before and after."""

    seconds: float  # since the first step
    early_s: float | None  # when it was at the loss plus its error; None where that is unknown ...
    late_s: float | None  # ... and at the loss less its error; None if it never was, too
    iteration: float
    after_iteration: int | None  # the evaluation before; None if the first of all is there already
    by_iteration: int  # the evaluation that is there
    tokens: float | None
    clock: TrainingClock


class Arrival(Record):
    """When both were at the lowest validation loss that both have reached."""

    metric: Metric
    target: float
    error: float | None  # of the difference of two such losses
    error_basis: ErrorBasis
    a: Reached
    b: Reached
    ratio: float | None  # seconds of b over seconds of a; None where one was there before its first step
    sooner: Sooner | None  # None where it is not clear


class Settling(Record):
    """A third run that would show which knob did it: run b with one knob set back to a's value."""

    knob: str
    value: Number | bool


class Comparison(Record):
    """Run b against run a. Build it with `nanopace.compare`."""

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
    leader_tokens: Literal["a", "b", "tie"] | None  # at the most tokens both have: the lower loss so far
    leader_time: Literal["a", "b", "tie"] | None  # at the longest time both have; None if it is not clear, too
    crossover_s: float | None  # from when on the later leader is ahead at equal time; None if the lead never changes
    crossover_tokens: float | None
    unattributable: tuple[str, ...]  # knobs that changed together and may each have moved the utilisation
    settling: tuple[Settling, ...]
    findings: tuple[Finding, ...]
    arrival: Arrival | None = None  # None where validation losses or their times are unknown, or cannot be compared
    version: int = JSON_VERSION

    def _repr_html_(self) -> str:
        """For notebooks."""
        return shown_in_a_notebook(self, "comparison_html")
