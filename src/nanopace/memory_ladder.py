"""The memory ladder: what a run can do without so as to fit into a card's memory, and all that is known of each step.

A new step is a row here, and the code that does without: in train/fused/ what a layer keeps, in train/optim/ what the
optimizer does.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

ALL_KEPT = 14  # bfloat16 numbers of each layer by token and n_embd, if nothing is computed again


@dataclass(frozen=True, slots=True)
class MemoryStep:
    """One step of the ladder."""

    name: str
    speed: float  # that is left, with all steps before it: 124M on an H200 (docs/experiments/memory.md)
    recipes: tuple[str, ...]  # that it saves something for
    kept: int | None = None  # of ALL_KEPT, with all steps before it; None: it is not about activations
    averages_bytes: int = 4  # of each of AdamW's two averages of a weight
    keeps_gradients: bool = True  # False: of one layer at a time, so that a step is one micro-batch
    needs: tuple[str, ...] = ()  # steps that it cannot do without


# In the order of what they cost. In recipe fast the square of ReLU keeps no input, so that there is no activation to
# save; and Muon has one average, and steps with all layers at once.
LADDER = (
    MemoryStep("activation", 0.99, ("gpt2",), kept=10),  # what GELU gives: its backward pass can give it on the way
    MemoryStep("hidden", 0.944, ("gpt2", "fast"), kept=6),  # what goes into it: a fifth of the layer's forward products
    MemoryStep("attention", 0.875, ("gpt2", "fast"), kept=2),  # queries, keys, values, and what attention found
    MemoryStep("averages", 0.875, ("gpt2",), averages_bytes=2),  # of AdamW, in bfloat16
    MemoryStep("gradients", 0.875, ("gpt2",), keeps_gradients=False, needs=("averages",)),
)
MEMORY_STEPS = tuple(step.name for step in LADDER)


def taken(names: Collection[str]) -> tuple[MemoryStep, ...]:
    """The steps of these names, in their order."""
    return tuple(step for step in LADDER if step.name in names)


def useful_steps(recipe: str, *, single: bool = False) -> tuple[str, ...]:
    """The steps that save something, in the order of what they cost. `single`: a step of the training is one
    micro-batch, so that gradients need not wait for another."""
    return tuple(step.name for step in LADDER if recipe in step.recipes and (single or step.keeps_gradients))


def kept_numbers(names: Collection[str], recipe: str = "gpt2") -> int:
    """How many of ALL_KEPT are kept after these steps. What a recipe has no use for it never keeps."""
    steps = (step for step in LADDER if step.name in names or recipe not in step.recipes)
    return min((step.kept for step in steps if step.kept is not None), default=ALL_KEPT)


def recomputed(names: Collection[str]) -> tuple[str, ...]:
    """What is computed again in the backward pass after these steps: each step with all before it."""
    kept = kept_numbers(names)
    return tuple(step.name for step in LADDER if step.kept is not None and step.kept >= kept)


def averages_bytes(names: Collection[str]) -> int:
    """Bytes of each of AdamW's two averages of a weight."""
    return min((step.averages_bytes for step in taken(names)), default=4)


def keeps_gradients(names: Collection[str]) -> bool:
    """Whether gradients of all layers are there at once, so that a step can have several micro-batches."""
    return all(step.keeps_gradients for step in taken(names))


def ladder_speed(names: Collection[str]) -> float:
    """What these steps leave of the speed."""
    return min((step.speed for step in taken(names)), default=1.0)
