"""How many tokens per second a card should reach, with an uncertainty range.

A micro-batch of B sequences takes a + b B: launching, whatever its size, and the work itself. Matrix products are
limited by the card's peak, everything else (norms, GELU, cross entropy) by its memory bandwidth:

    a   0.22 ms per layer with nanoGPT, 0.12 with our kernels (one H200, micro-batch 8 against 64)
    b   FLOPs / (share of the peak) + bytes / (share of the bandwidth)

Bytes are derived from the H200's profile of nanoGPT (30.6 of 116 ms are elementwise, 8.6 of them cross entropy) and of
our kernels (16.6 of 101 ms). The shares are those of a long run at the power limit, by class of card, from the points
in measured.csv; a test checks that each point is in its range. Cards without a point get a wide range.
"""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Collection
from dataclasses import dataclass

from nanopace.hardware.cards import Card, find_card
from nanopace.hardware.flops import flops_per_token, parameters
from nanopace.memory_ladder import ladder_speed

_MEASURED = os.path.join(os.path.dirname(__file__), "measured.csv")


@dataclass(frozen=True, slots=True)
class Range:
    """An expected value, and the range of values that would not surprise us."""

    low: float
    expected: float
    high: float

    def times(self, factor: float) -> Range:
        return Range(self.low * factor, self.expected * factor, self.high * factor)

    def time_of(self, amount: float) -> Range:
        """How long `amount` takes at this rate: the slowest rate gives the longest time."""
        return Range(amount / self.high, amount / self.expected, amount / self.low)


@dataclass(frozen=True, slots=True)
class CardClass:
    """Cards that reach a similar share of their data sheet's figures."""

    name: str
    shares: tuple[tuple[float, float], ...]  # of the peak, at a peak in TFLOP/s: interpolated by its logarithm
    bandwidth_share: float
    below: float  # the range, as factors of the expected value
    above: float
    measured: bool

    def share(self, peak_tflops: float) -> float:
        (low, first), (high, last) = self.shares[0], self.shares[-1]
        if peak_tflops <= low or low == high:
            return first
        return (
            last if peak_tflops >= high else first + (last - first) * math.log(peak_tflops / low) / math.log(high / low)
        )


# GeForce cards have half the tensor rate with FP32 accumulation, and clocks above the advertised ones: small cards
# exceed their rated peak in a matrix product; a 4090 does not.
_GEFORCE = CardClass("geforce", ((58.3, 1.10), (165.2, 0.76)), 0.9, 0.82, 1.18, True)
# The H200 reaches 791 TFLOP/s in a matrix product of 8192, less with a model's shapes, less at the power limit.
_HOPPER = CardClass("hopper", ((989.5, 0.648),), 0.783, 0.85, 1.15, True)
# A laptop's data sheet gives the boost clock with the largest power supply.
_LAPTOP = CardClass("laptop", ((58.3, 0.88), (165.2, 0.6)), 0.85, 0.55, 1.2, False)
# llm.c reached 22.5% of the A10's 125 TFLOP/s (github.com/karpathy/llm.c/pull/621): 150 W is not enough for more.
_LOW_POWER = CardClass("low_power", ((121.0, 0.28),), 0.8, 0.55, 1.7, False)
# Like an H200, until someone measures one.
_SERVER = CardClass("server", ((312.0, 0.62),), 0.8, 0.6, 1.3, False)
# Matrix products reach 51 to 60% of an MI300X's peak (the note in cards.csv).
_AMD = CardClass("amd", ((1307.4, 0.4),), 0.7, 0.5, 1.5, False)
_GIVEN = CardClass("given", ((58.3, 0.9), (989.5, 0.648)), 0.85, 0.55, 1.4, False)
_CAPPED_WATTS = 150
_GB_PER_TFLOP = 7.0  # bandwidth of a card given by hand: 5 on an H200, 9 on a 4070, 13 on a 3090

_LAUNCH_S = {"nanogpt": 2.68e-3 / 12, "nanopace": 1.43e-3 / 12}  # per layer and micro-batch
_BYTES = {"nanogpt": (146.0, 10.4), "nanopace": (76.8, 6.1)}  # per token: for a layer's width, and for a logit
_OPTIMIZER_BYTES = 56  # per weight and step: 28 are read and written, at half the bandwidth (1.5 ms on the H200)


def card_class(card: Card) -> CardClass:
    """The class whose shares a card gets."""
    if not card.arch:
        return _GIVEN
    if card.compute.startswith("gfx"):
        return _AMD
    if "Laptop" in card.name:
        return _LAPTOP
    if "GeForce" in card.name:
        return _GEFORCE
    if card.tdp_w is not None and card.tdp_w <= _CAPPED_WATTS:
        return _LOW_POWER
    if card.arch == "Hopper" and card.bf16_tflops is not None and card.bf16_tflops > 900:
        return _HOPPER
    return _SERVER


def own_kernels(card: Card) -> bool:
    """Whether our kernels run on it: NVIDIA cards with bfloat16, that is, capability 8 or newer."""
    if card.compute.startswith("gfx") or card.arch == "Apple":
        return False
    return not card.compute or float(card.compute) >= 8


def launch_seconds(n_layer: int, trainer: str = "nanogpt") -> float:
    """What a micro-batch costs regardless of its size."""
    return _LAUNCH_S[trainer] * n_layer


def token_seconds(
    card: Card, n_layer: int, n_embd: int, vocab_size: int, block_size: int, trainer: str
) -> float | None:
    """The time for the work of one token; None if the card's peak in bfloat16 is unknown."""
    if card.bf16_tflops is None:
        return None
    kind, peak = card_class(card), card.bf16_tflops
    flops = flops_per_token(parameters(n_layer, n_embd, vocab_size), n_layer, n_embd, block_size)
    of_layers, of_logits = _BYTES[trainer if own_kernels(card) else "nanogpt"]
    moved = of_layers * n_layer * n_embd + of_logits * vocab_size
    return flops / (peak * 1e12 * kind.share(peak)) + moved / (_bandwidth(card) * kind.bandwidth_share)


def pace(
    card: Card,
    n_layer: int,
    n_embd: int,
    vocab_size: int,
    block_size: int,
    batch_size: int,
    accumulation: int,
    *,
    trainer: str = "nanopace",
    steps: Collection[str] = (),
) -> Range | None:
    """Tokens per second on one card, without evaluations and checkpoints; None if it cannot be predicted."""
    each = token_seconds(card, n_layer, n_embd, vocab_size, block_size, trainer)
    if each is None:
        return None
    trainer = trainer if own_kernels(card) else "nanogpt"
    tokens = batch_size * block_size
    work = launch_seconds(n_layer, trainer) + each * tokens / ladder_speed(steps)
    everything = parameters(n_layer, n_embd, vocab_size, block_size)
    step_s = accumulation * work + _OPTIMIZER_BYTES * everything / _bandwidth(card)
    expected, kind = accumulation * tokens / step_s, card_class(card)
    low = expected
    if trainer == "nanopace" and kind is not _HOPPER:  # nobody has measured what our kernels gain there
        size = (n_layer, n_embd, vocab_size, block_size, batch_size, accumulation)
        theirs = pace(card, *size, trainer="nanogpt", steps=steps)
        low = expected if theirs is None else min(expected, theirs.expected)
    return Range(low * kind.below, expected, expected * kind.above)


def _bandwidth(card: Card) -> float:
    """Bytes per second."""
    return 1e9 * (card.bandwidth_gb_s or _GB_PER_TFLOP * (card.bf16_tflops or 0.0))


@dataclass(frozen=True, slots=True)
class Point:
    """One measured speed."""

    card: str
    trainer: str
    n_layer: int
    n_embd: int
    batch_size: int
    accumulation: int
    steps: tuple[str, ...]
    tokens_per_s: float
    source: str


def pace_of(point: Point) -> Range | None:
    """The expected speed at a point. All points have GPT-2's vocabulary and context length."""
    sizes = (point.n_layer, point.n_embd, 50304, 1024, point.batch_size, point.accumulation)
    return pace(find_card(point.card), *sizes, trainer=point.trainer, steps=point.steps)


def measured_points() -> list[Point]:
    """All points that the ranges have to contain.

    Two figures in docs/experiments/memory.md are left out: 350M with 4 sequences and 774M with one, launched kernel by
    kernel, where the host was the limit. `nanopace train` records CUDA graphs, and the figures with graphs are
    included.
    """
    with open(_MEASURED, encoding="utf-8", newline="") as file:
        return [
            Point(
                card=row["card"],
                trainer=row["trainer"],
                n_layer=int(row["n_layer"]),
                n_embd=int(row["n_embd"]),
                batch_size=int(row["batch_size"]),
                accumulation=int(row["accumulation"]),
                steps=tuple(row["ladder"].split()),
                tokens_per_s=float(row["tokens_per_s"]),
                source=row["source"],
            )
            for row in csv.DictReader(file)
        ]
