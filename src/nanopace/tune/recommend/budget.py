"""How many tokens to train on, and how many per step, if not given."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from nanopace.errors import UsageError
from nanopace.hardware.scaling_law import ALMOST_FRESH, WORTHWHILE, too_often
from nanopace.tune.recommend.datasets import Dataset
from nanopace.tune.recommend.micro_batch import sequences_per_step
from nanopace.tune.recommend.models import Model

STEP_TOKENS = 524_288
TOKENS_PER_PARAMETER = 20  # Hoffmann et al. 2022
_FEWEST_STEPS = 1000  # of a run with the default step size: shorter runs get smaller steps

_DROPOUT = 0.2  # nanoGPT's for Shakespeare


@dataclass(frozen=True, slots=True)
class Budget:
    """A run's tokens, in whole steps of whole sequences."""

    sequences: int  # per step
    per_step: int  # tokens
    max_iters: int
    reason: str  # for the number of tokens

    @property
    def tokens(self) -> int:
        return self.max_iters * self.per_step


def budget_of(model: Model, dataset: Dataset, tokens: int | None = None, step_tokens: int | None = None) -> Budget:
    """The requested budget, completed from the model and the dataset; UsageError if it is less than one step."""
    asked, reason = (tokens, "max_iters") if tokens is not None else _default(model, dataset)
    step = _default_step(asked, model.block_size) if step_tokens is None else step_tokens
    if step < model.block_size:
        raise UsageError(
            "--batch {tokens}: less than one sequence of {block_size} tokens; increase it",
            tokens=step,
            block_size=model.block_size,
        )
    sequences = sequences_per_step(step, model.block_size)
    per_step = sequences * model.block_size
    if asked < model.block_size:
        raise UsageError(
            "--tokens {tokens}: less than one sequence of {block_size} tokens; increase it",
            tokens=asked,
            block_size=model.block_size,
        )
    if asked < per_step:
        raise UsageError(
            "--tokens {tokens}: less than one step of {step:,}; use more, or a smaller --batch",
            tokens=asked,
            step=per_step,
        )
    return Budget(sequences, per_step, round(asked / per_step), reason)


def enough_of(model: Model, dataset: Dataset, step_tokens: int | None = None) -> Budget | None:
    """All worthwhile passes over a dataset; None if its size is unknown or they are less than a step."""
    if dataset.tokens is None or WORTHWHILE * dataset.tokens < max(step_tokens or 0, model.block_size):
        return None
    return budget_of(model, dataset, WORTHWHILE * dataset.tokens, step_tokens)


def regularised(model: Model, dataset: Dataset, tokens: int) -> Model:
    """The model, with dropout if it will read too little text too often."""
    passes = 0.0 if dataset.tokens is None else tokens / dataset.tokens
    overfits = too_often(passes) or (passes > ALMOST_FRESH and is_short(dataset, model))
    return replace(model, dropout=_DROPOUT) if overfits else model


def is_short(dataset: Dataset, model: Model) -> bool:
    """Whether all worthwhile passes over it have fewer tokens than the model needs."""
    return dataset.tokens is not None and WORTHWHILE * dataset.tokens < TOKENS_PER_PARAMETER * model.parameters


def _default(model: Model, dataset: Dataset) -> tuple[int, str]:
    """The default budget in tokens, and the code of its reason."""
    if dataset.tokens is not None and is_short(dataset, model):
        return WORTHWHILE * dataset.tokens, "max_iters_data"
    return TOKENS_PER_PARAMETER * model.parameters, "max_iters_chinchilla"


def _default_step(tokens: int, block_size: int) -> int:
    """GPT-2's step size, or for a short run the largest power of two that gives it a thousand steps."""
    most = max(1, tokens // _FEWEST_STEPS)
    return STEP_TOKENS if most >= STEP_TOKENS else max(block_size, 1 << int(math.log2(most)))
