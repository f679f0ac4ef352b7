"""Which micro-batch: what fits, with how much of the memory ladder, and which of those is fastest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nanopace.hardware.cards import Card
from nanopace.hardware.memory import (
    GIB,
    climb_with_host,
    fits,
    fused_peak_bytes,
    largest_fused_micro_batch,
    largest_micro_batch,
    peak_bytes,
)
from nanopace.hardware.speed import own_kernels, pace
from nanopace.memory_ladder import keeps_gradients, useful_steps
from nanopace.tune.divisors import divisors
from nanopace.tune.recommend.models import Model

_SHOWN = 0.001  # a smaller gain would be printed as 0.0%
_WITHIN = 0.99  # of the best speed: so much is given up for a config that nanoGPT can hold too
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
    timed: bool = False  # whether it was chosen by its speed
    tight: bool = False  # no smaller one is possible, and it leaves no memory to spare
    faster: tuple[int, float] | None = None  # one that nanoGPT cannot hold, and how much faster it should be


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
        steps = climb_with_host(model.size, count, card.memory_gb)
        if fits(model.size, count, card.memory_gb, steps):
            return MicroBatch(count, steps)
    return None


def host_rung(card: Card, model: Model, steps: tuple[str, ...]) -> Rung:
    return Rung("nanopace", steps, _largest(card, model, steps))


def largest_released(card: Card, model: Model) -> int:
    """The most sequences per step if no gradients are kept: the step is then a single micro-batch."""
    if not fused(card, model):
        return 0
    most = _largest(card, model, useful_steps("gpt2", single=True))
    return most if most < _MANY else most - most % _TOGETHER


def _largest_compiled(card: Card, model: Model, memory_gb: float) -> int:
    """For nanoGPT, or for ours without our kernels."""
    return largest_micro_batch(model.size, memory_gb, not card.without_compiling, single=in_float32(card))


def in_float32(card: Card) -> bool:
    """Whether a run on it has nothing in 16 bits: without tensor cores, or on Apple's GPUs."""
    return card.arch == "Apple" or card.without_tensor_cores


def _largest(card: Card, model: Model, steps: Sequence[str]) -> int:
    return largest_fused_micro_batch(model.size, card.memory_gb, steps)


def memory_of(card: Card, model: Model, count: int, steps: Sequence[str]) -> int:
    """The bytes that a step takes on the card."""
    if fused(card, model):
        return fused_peak_bytes(model.size, count, steps)
    return peak_bytes(model.size, count, compiled=not card.without_compiling, single=in_float32(card))


def pick_micro_batch(card: Card, model: Model, sequences: int) -> MicroBatch:
    """The fastest that leaves a tenth of the memory free: nothing else is gained by a smaller one. The config is for
    nanoGPT as well, so one that it can hold comes first if that costs next to nothing.

    Gradients are kept if at all possible.
    """
    candidates = [each for each in divisors(sequences) if each <= _MOST]
    fitting = [(each, steps) for each in candidates if (steps := _least_steps(card, model, each)) is not None]
    if not fitting:  # whatever fits leaves no memory to spare
        top = next(rung for rung in rungs(card, model, sequences) if rung.micro_batch)
        return MicroBatch(1 if keeps_gradients(top.steps) else sequences, top.steps, tight=True)
    speeds = {count: _speed(card, model, sequences, count, steps) for count, steps in fitting}
    if None in speeds.values():
        small = [pair for pair in fitting if pair[0] <= _UNTIMED]
        fewest = min(len(steps) for _, steps in small)
        return MicroBatch(*[pair for pair in small if len(pair[1]) == fewest][-1])
    known = {count: speed for count, speed in speeds.items() if speed is not None}
    fastest = max(known, key=lambda count: known[count])
    most = _largest_compiled(card, model, card.memory_gb)
    shared = [count for count in known if count <= most and known[count] >= _WITHIN * known[fastest]]
    chosen = max(shared or [fastest], key=lambda count: known[count])
    gain = known[fastest] / known[chosen] - 1
    faster = (fastest, gain) if gain >= _SHOWN else None
    return MicroBatch(chosen, dict(fitting)[chosen], timed=True, faster=faster)


def _speed(card: Card, model: Model, sequences: int, count: int, steps: Sequence[str]) -> float | None:
    speed = pace(card, model.size, count, sequences // count, trainer=trainer_of(card, model), steps=steps)
    return None if speed is None else speed.expected


def _least_steps(card: Card, model: Model, count: int) -> tuple[str, ...] | None:
    """The fewest steps of the ladder that leave a tenth of the memory free; None if even all of them do not."""
    steps = useful_steps("gpt2") if fused(card, model) else ()
    ladders = (steps[:number] for number in range(len(steps) + 1))
    return next((some for some in ladders if memory_of(card, model, count, some) <= card.memory_gb * GIB * _FREE), None)
