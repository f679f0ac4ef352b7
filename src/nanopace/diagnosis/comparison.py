"""What two runs mean beside each other: codes and numbers, never sentences. The records are the JSON."""

from __future__ import annotations

from typing import Literal

from nanopace.diagnosis.result import JSON_VERSION, Diagnosis, Finding, Number
from nanopace.record import Record


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
    """Exact: ln(tokens/s of b) - ln(tokens/s of a) = flops_per_token + utilisation + peak."""

    total: float | None
    flops_per_token: float | None
    utilisation: float | None
    peak: float | None  # 0 on the same card; None where a card is unknown, and then it is inside utilisation


class AtTokens(Record):
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


class Settling(Record):
    """A run that would settle what two runs cannot: run b with one knob set back to a's value."""

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
    leader_tokens: Literal["a", "b", "tie"] | None  # at the most tokens both have
    leader_time: Literal["a", "b", "tie"] | None  # at the longest time both have
    crossover_s: float | None  # from when on the later leader is ahead at equal time; None if the lead never changes
    crossover_tokens: float | None
    unattributable: tuple[str, ...]  # knobs that changed together and may each have moved the utilisation
    settling: tuple[Settling, ...]
    findings: tuple[Finding, ...]
    version: int = JSON_VERSION
