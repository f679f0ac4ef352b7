"""The memory ladder: what a run can give up to fit in a card's memory, and everything known about each step.

To add a step, add a row here and the code: train/fused/ decides what a layer keeps, train/optim/ what the optimizer
does.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

ALL_KEPT = 14  # bfloat16 numbers per layer, token and channel (n_embd) if nothing is recomputed


@dataclass(frozen=True, slots=True)
class MemoryStep:
    """One step of the ladder."""

    name: str
    speed: float  # the share of speed left, including all steps before it: 124M on an H200 (docs/experiments/memory.md)
    recipes: tuple[str, ...]  # the recipes it saves memory for
    kept: int | None = None  # how many of ALL_KEPT are left, including all steps before it; None: not about activations
    averages_bytes: int = 4  # for each of AdamW's two averages, per weight
    keeps_gradients: bool = True  # False: only one layer's at a time, so a training step is one micro-batch
    needs: tuple[str, ...] = ()  # steps that it requires


# Cheapest first. In recipe fast, squared ReLU keeps no input, so there is no activation to save; Muon has only one
# average, and updates all layers at once.
LADDER = (
    MemoryStep("activation", 0.99, ("gpt2",), kept=10),  # GELU's output: its backward pass can recompute it
    MemoryStep("hidden", 0.944, ("gpt2", "fast"), kept=6),  # GELU's input: a fifth of the layer's forward products
    MemoryStep("attention", 0.875, ("gpt2", "fast"), kept=2),  # queries, keys, values, and attention's output
    MemoryStep("averages", 0.875, ("gpt2",), averages_bytes=2),  # AdamW's, in bfloat16
    MemoryStep("gradients", 0.875, ("gpt2",), keeps_gradients=False, needs=("averages",)),
)
MEMORY_STEPS = tuple(step.name for step in LADDER)
# In the host's memory, where the card's is too small for any of these. There is room for averages in float32, so they
# come without `averages` and `gradients`, and change nothing of what is learned. How much speed is left depends on the
# bus (hardware/speed.py).
_ALL_AGAIN = ("activation", "hidden", "attention")
HOST = (
    MemoryStep("host", 0.875, ("gpt2", "fast")),  # averages, and the blocks' matrices themselves
    MemoryStep("host_gradients", 0.875, ("gpt2", "fast"), needs=("host",)),  # each micro-batch adds to them
    MemoryStep("host_activations", 0.875, ("gpt2", "fast"), needs=("host", *_ALL_AGAIN)),  # what is left of them
    MemoryStep("host_weights", 0.875, ("gpt2", "fast"), needs=("host", "host_gradients")),  # in bfloat16, for products
)
HOST_STEPS = tuple(step.name for step in HOST)


def taken(names: Collection[str]) -> tuple[MemoryStep, ...]:
    """The steps with these names, in ladder order."""
    return tuple(step for step in (*LADDER, *HOST) if step.name in names)


def useful_steps(recipe: str, *, single: bool = False) -> tuple[str, ...]:
    """The steps that save something, cheapest first. `single`: a training step is one micro-batch, so gradients need
    not be kept for another."""
    return tuple(step.name for step in LADDER if recipe in step.recipes and (single or step.keeps_gradients))


def host_ladders(recipe: str, *, fp8: bool = False) -> tuple[tuple[str, ...], ...]:
    """What to try with the host's memory, cheapest first: to recompute more and more, then to move more and more.
    Matrices in 8 bits stay on the card."""
    again = tuple(step.name for step in LADDER if recipe in step.recipes and step.kept is not None)
    moving = HOST_STEPS[:-1] if fp8 else HOST_STEPS
    first = tuple((*again[:count], moving[0]) for count in range(len(again) + 1))
    return (*first, *((*again, *moving[:count]) for count in range(2, len(moving) + 1)))


def on_host(names: Collection[str]) -> bool:
    """Whether averages and the blocks' matrices are in the host's memory."""
    return "host" in names


def kept_numbers(names: Collection[str], recipe: str = "gpt2") -> int:
    """How many of ALL_KEPT are kept after these steps. A recipe never keeps what it has no use for."""
    steps = (step for step in LADDER if step.name in names or recipe not in step.recipes)
    return min((step.kept for step in steps if step.kept is not None), default=ALL_KEPT)


def recomputed(names: Collection[str]) -> tuple[str, ...]:
    """What the backward pass recomputes after these steps: each step includes all those before it."""
    kept = kept_numbers(names)
    return tuple(step.name for step in LADDER if step.kept is not None and step.kept >= kept)


def averages_bytes(names: Collection[str]) -> int:
    """Bytes per weight of each of AdamW's two averages."""
    return min((step.averages_bytes for step in taken(names)), default=4)


def keeps_gradients(names: Collection[str]) -> bool:
    """Whether the gradients of all layers exist at once, so that a step can have several micro-batches."""
    return all(step.keeps_gradients for step in taken(names))


def ladder_speed(names: Collection[str]) -> float:
    """The share of speed left after these steps."""
    return min((step.speed for step in taken(names)), default=1.0)
