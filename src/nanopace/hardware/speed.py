"""How many tokens per second a card should reach, with an uncertainty range.

A micro-batch of B sequences takes a + b B: launching, whatever its size, and the work itself. Matrix products are
limited by the card's peak, everything else (norms, GELU, cross entropy) by its memory bandwidth:

    a   launches, per layer
    b   FLOPs / (share of the peak) + bytes / (share of the bandwidth)

The shares belong to the class of the card (card_classes.py), launches and bytes to the trainer (trainers.py). The peak
is that of the number format in which the card trains: bf16, or fp16 or fp32 if it has no bf16. The share of the peak is
smaller where the board power is small for that peak.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from nanopace.hardware.card_classes import ENOUGH_WATTS, CardClass, card_class
from nanopace.hardware.cards import Card, Peak
from nanopace.hardware.flops import Size, flops_per_token, parameters
from nanopace.hardware.trainers import FP8_PRODUCTS, OPTIMIZER_BYTES, TRAINERS, Trainer
from nanopace.memory_ladder import ladder_speed, on_host

_GB_PER_TFLOP = 7.0  # bandwidth of a card given by hand: 5 on an H200, 9 on a 4070, 13 on a 3090
BUS_GB_S = 25.0  # PCIe 4 x16, each way, as large copies reach it
_ONLY_EARLY_LOGS = ("NVIDIA A100-SXM4-40GB", "NVIDIA A100-PCIE-40GB")  # of nanoGPT; later ones are of other cards
_OVERLAP = 3  # exponent: host and card work at the same time, and the step takes a little more than the longer of both


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


def own_kernels(card: Card) -> bool:
    """Whether our kernels run on it: NVIDIA cards with bfloat16, that is, capability 8 or newer."""
    if card.compute.startswith("gfx") or card.arch == "Apple":
        return False
    return not card.compute or float(card.compute) >= 8


def training_peak(card: Card) -> Peak | None:
    """The peak in the number format that a run should use; None if it is unknown. Apple's GPUs train in float32, and
    nobody has measured how much of their peak they reach: only one given by hand counts."""
    return None if card.arch == "Apple" and card.bf16_tflops is None else card.peak_for()


def trainer_on(card: Card, trainer: str) -> Trainer:
    """Where our kernels do not run, nanopace uses torch.compile and is as fast as nanoGPT."""
    return TRAINERS["nanogpt" if trainer == "nanopace" and not own_kernels(card) else trainer]


def work_seconds(
    card: Card, kind: CardClass, how: Trainer, size: Size, weights: float, fp8: float = 1.0
) -> float | None:
    """The time for the work of one token; None if the card's peak is unknown. `weights`: those that are multiplied
    with; `fp8`: how much faster in 8 bits."""
    peak = training_peak(card)
    if peak is None:
        return None
    n_layer, n_embd, vocab_size, block_size = size
    flops = flops_per_token(weights / fp8, n_layer, n_embd, block_size)
    moved = how.layer_bytes * n_layer * n_embd * (2 if peak.precision == "fp32" else 1) + how.logit_bytes * vocab_size
    rate = peak.tflops * 1e12 * kind.share * _at_its_power(card, kind, peak) * how.products
    return flops / rate + moved / (_bandwidth(card) * kind.bandwidth_share)


def step_seconds(
    work: float, how: Trainer, n_layer: int, tokens: int, accumulation: int, update: float, ladder: float = 1.0
) -> float:
    """A step of so many micro-batches of so many tokens, if a token's work takes `work` and the update `update`."""
    busy = accumulation * (how.launch_s * n_layer + work * tokens / ladder) + update
    host = accumulation * how.host_s * n_layer
    return float((busy**_OVERLAP + host**_OVERLAP) ** (1 / _OVERLAP)) if host else busy


def update_seconds(card: Card, weights: float) -> float:
    return OPTIMIZER_BYTES * weights / _bandwidth(card)


def bus_seconds(size: Size, tokens: int, steps: Collection[str]) -> tuple[float, float]:
    """The time on the bus for each micro-batch of so many tokens, and for each update, with the host's memory. Both
    directions work at the same time; this is the busier one, to the card."""
    if not on_host(steps):
        return 0.0, 0.0
    n_layer, n_embd, vocab_size, block_size = size
    matrices, rest = 12 * n_layer * n_embd**2, (vocab_size + block_size) * n_embd
    streamed = "host_gradients" in steps
    micro = (4 * streamed + 4 * ("host_weights" in steps)) * matrices
    micro += 2 * 2 * tokens * n_embd * n_layer * ("host_activations" in steps)
    unfolded = 4 * matrices * 7 / 12  # the matrices behind norms, for the norms' gradients
    update = (12 + 8 * streamed) * matrices + unfolded + 8 * rest
    return micro / (BUS_GB_S * 1e9), update / (BUS_GB_S * 1e9)


def pace(
    card: Card,
    size: Size,
    batch_size: int,
    accumulation: int,
    *,
    trainer: str = "nanopace",
    steps: Collection[str] = (),
    weights: float | None = None,
    fp8: bool = False,
) -> Range | None:
    """Tokens per second on one card, without evaluations and checkpoints; None if it cannot be predicted.

    `weights`: those that are multiplied with, if the model is not nanoGPT's; `fp8`: matrix products in 8 bits.
    """
    n_layer, n_embd, vocab_size, block_size = size
    kind, how = card_class(card), trainer_on(card, trainer)
    known = weights or parameters(n_layer, n_embd, vocab_size)
    work = work_seconds(card, kind, how, size, known, FP8_PRODUCTS if fp8 else 1.0)
    if work is None:
        return None
    tokens = batch_size * block_size
    update = update_seconds(card, weights or parameters(*size))
    per_micro, per_update = bus_seconds(size, tokens, steps)
    seconds = step_seconds(work, how, n_layer, tokens, accumulation, update, ladder_speed(steps))
    expected = accumulation * tokens / (max(seconds, accumulation * per_micro) + per_update)
    low = expected * kind.below
    slower = _may_be_like(how.name, card)
    if slower is not None:
        theirs = pace(card, size, batch_size, accumulation, trainer=slower, steps=steps)
        low = low if theirs is None else min(low, theirs.low)
    return Range(low, expected, expected * kind.above)


def _may_be_like(trainer: str, card: Card) -> str | None:
    """Whose range a range has to reach down to: our kernels may gain nothing where they were not measured, and where
    there are only early logs of nanoGPT, these may be slow because of the card."""
    if trainer == "nanopace":
        return None if kernels_measured(card) else "nanogpt"
    return "nanogpt_early" if trainer == "nanogpt" and card.name in _ONLY_EARLY_LOGS else None


def _at_its_power(card: Card, kind: CardClass, peak: Peak) -> float:
    """The part of its class's share that a card reaches with its board power."""
    return 1.0 if card.tdp_w is None else min(1.0, card.tdp_w / (ENOUGH_WATTS * peak.tflops)) ** kind.power


def kernels_measured(card: Card) -> bool:
    """Whether somebody has measured what our kernels gain on such a card: on an H200 only."""
    return card_class(card).name == "hopper"


def _bandwidth(card: Card) -> float:
    """Bytes per second."""
    peak = training_peak(card)
    return 1e9 * (card.bandwidth_gb_s or _GB_PER_TFLOP * (0.0 if peak is None else peak.tflops))
