"""What two runs mean beside each other: codes and numbers, never sentences. The dataclasses are the JSON.

Apart from `result.py`, because making a dataclass costs half a millisecond, and `explain` needs none of these.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from nanopace.diagnosis.result import JSON_VERSION, Diagnosis, Finding, Number


@dataclass(frozen=True, slots=True)
class Change:
    knob: str
    a: Number | bool
    b: Number | bool
    a_origin: str | None
    b_origin: str | None


@dataclass(frozen=True, slots=True)
class PairOf:
    """A figure of both runs, and b over a."""

    a: float | None
    b: float | None
    ratio: float | None


@dataclass(frozen=True, slots=True)
class Decomposition:
    """Exact: ln(tokens/s of b) - ln(tokens/s of a) = flops_per_token + utilisation + peak."""

    total: float | None
    flops_per_token: float | None
    utilisation: float | None
    peak: float | None  # 0 on the same card; None where a card is unknown, and then it is inside utilisation


@dataclass(frozen=True, slots=True)
class AtTokens:
    tokens: float
    a: float
    b: float


@dataclass(frozen=True, slots=True)
class AtTime:
    seconds: float
    a: float
    b: float


@dataclass(frozen=True, slots=True)
class AtFlops:
    flops: float
    a: float
    b: float


@dataclass(frozen=True, slots=True)
class Settling:
    """A run that would settle what two runs cannot: run b with one knob set back to a's value."""

    knob: str
    value: Number | bool


@dataclass(frozen=True, slots=True)
class Comparison:
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
