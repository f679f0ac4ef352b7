"""Which micro-batch: what fits, with how much of the memory ladder, and which of those is fastest without waste."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nanopace.hardware.cards import Card
from nanopace.hardware.memory import (
    GIB,
    climb_with_host,
    fused_peak_bytes,
    largest_fused_micro_batch,
    largest_micro_batch,
    usable_bytes,
)
from nanopace.hardware.speed import launch_seconds, own_kernels, token_seconds
from nanopace.memory_ladder import keeps_gradients, ladder_speed, useful_steps
from nanopace.tune.divisors import divisors
from nanopace.tune.recommend.models import Model

WITHIN = 0.98  # of the best speed: beyond that, a larger micro-batch is not worth its memory
_FREE = 0.9  # of the memory: the recommended limit
_MOST = 4096
_UNTIMED = 16  # sequences, if the speed is unknown
_MANY, _TOGETHER = 64, 16  # sequences: a step of at least 64 has a multiple of 16


def fused(card: Card, model: Model) -> bool:
    """Whether our own kernels train it: they do not support dropout."""
    return own_kernels(card) and model.dropout == 0


def trainer_of(card: Card, model: Model) -> str:
    """Whose speed applies: without our kernels, nanopace uses torch.compile and is as fast as nanoGPT."""
    return "nanopace" if fused(card, model) else "nanogpt"


@dataclass(frozen=True, slots=True)
class Rung:
    """The largest micro-batch with these steps of the ladder; nanoGPT's, which has no steps, comes last."""

    trainer: str
    steps: tuple[str, ...]
    micro_batch: int


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """The recommended micro-batch."""

    sequences: int
    steps: tuple[str, ...]
    launch_share: float | None  # of the time, for kernel launches at this size
    tight: bool = False  # no smaller one is possible, and it leaves no memory to spare


def sequences_per_step(step_tokens: int, block_size: int) -> int:
    """The number of sequences per step; if large, one that micro-batches and cards divide."""
    sequences = max(1, round(step_tokens / block_size))
    return sequences if sequences < _MANY else _TOGETHER * round(sequences / _TOGETHER)


def rungs(card: Card, model: Model, sequences: int) -> tuple[Rung, ...]:
    """From no memory step to all that a step of that many sequences can use, and nanoGPT."""
    theirs = Rung("nanogpt", (), _largest_compiled(card, model, card.memory_gb))
    if not fused(card, model):
        return (Rung("nanopace", (), theirs.micro_batch), theirs)
    steps = useful_steps("gpt2", single=sequences <= largest_released(card, model))
    ours = (steps[:count] for count in range(len(steps) + 1))
    return (*(Rung("nanopace", each, _largest(card, model, each)) for each in ours), theirs)


def host_micro_batch(card: Card, model: Model, sequences: int) -> MicroBatch | None:
    """The micro-batch where only the host's memory makes the model fit: as large as useful, since everything that is
    there passes the bus with each. None if not even that is enough."""
    if not fused(card, model):
        return None
    for count in reversed([each for each in divisors(sequences) if each <= _TOGETHER]):
        steps = climb_with_host(*model.size, count, card.memory_gb)
        if fused_peak_bytes(*model.size, count, steps) <= usable_bytes(card.memory_gb):
            return MicroBatch(count, steps, None)
    return None


def largest_released(card: Card, model: Model) -> int:
    """The most sequences per step if no gradients are kept: the step is then a single micro-batch."""
    if not fused(card, model):
        return 0
    most = _largest(card, model, useful_steps("gpt2", single=True))
    return most if most < _MANY else most - most % _TOGETHER


def _largest_compiled(card: Card, model: Model, memory_gb: float) -> int:
    """For nanoGPT, or for ours without our kernels."""
    return largest_micro_batch(*model.size, memory_gb, not card.without_compiling, single=in_float32(card))


def in_float32(card: Card) -> bool:
    """Whether a run on it has nothing in 16 bits: without tensor cores, or on Apple's GPUs."""
    return card.arch == "Apple" or card.without_tensor_cores


def _largest(card: Card, model: Model, steps: Sequence[str]) -> int:
    return largest_fused_micro_batch(*model.size, card.memory_gb, steps)


def pick_micro_batch(card: Card, model: Model, sequences: int) -> MicroBatch:
    """The smallest within 2% of the fastest that fits: a larger one costs memory and gains nothing.

    Timed with nanoGPT's fixed cost, the larger of the two, so that the config suits both. Gradients are kept if at all
    possible.
    """
    candidates = [each for each in divisors(sequences) if each <= _MOST]
    fitting = [(each, steps) for each in candidates if (steps := _least_steps(card, model, each)) is not None]
    if not fitting:  # whatever fits leaves no memory to spare
        top = next(rung for rung in rungs(card, model, sequences) if rung.micro_batch)
        return MicroBatch(1 if keeps_gradients(top.steps) else sequences, top.steps, None, tight=True)
    work = token_seconds(card, *model.size, trainer_of(card, model))
    if work is None:
        small = [pair for pair in fitting if pair[0] <= _UNTIMED]
        fewest = min(len(steps) for _, steps in small)
        count, steps = [pair for pair in small if len(pair[1]) == fewest][-1]
        return MicroBatch(count, steps, None)
    launch = launch_seconds(model.n_layer)

    def speed(count: int, steps: Sequence[str]) -> float:
        return 1 / (work / ladder_speed(steps) + launch / (count * model.block_size))

    fastest = max(speed(*pair) for pair in fitting)
    count, steps = next(pair for pair in fitting if speed(*pair) >= WITHIN * fastest)
    share = launch / (launch + work / ladder_speed(steps) * count * model.block_size)
    return MicroBatch(count, steps, share)


def _least_steps(card: Card, model: Model, count: int) -> tuple[str, ...] | None:
    """The fewest steps of the ladder that leave a tenth of the memory free; None if even all of them do not."""
    if not fused(card, model):
        return () if _largest_compiled(card, model, card.memory_gb * _FREE) >= count else None
    steps = useful_steps("gpt2")
    most = card.memory_gb * GIB * _FREE
    for number in range(len(steps) + 1):
        if fused_peak_bytes(*model.size, count, steps[:number]) <= most:
            return steps[:number]
    return None
