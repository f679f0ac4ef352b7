"""Groups a recipe's weights by learning rate and weight decay."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from torch import Tensor, nn

from nanopace.config import TrainConfig
from nanopace.train.models.recipes import EPS, HEAD_RATE, SCALAR_RATE, TABLE_RATE, TUNED_WIDTH, block_matrices

PEAK = "peak"  # the key of a group's own peak rate, if that is not learning_rate

Group = dict[str, Any]


class Groups(NamedTuple):
    """AdamW's groups, and the matrices inside the blocks by name, if the recipe may give them another optimizer."""

    adamw: list[Group]
    matrices: Mapping[str, Tensor]
    eps: float  # AdamW's


def parameter_groups(model: nn.Module, config: TrainConfig) -> Groups:
    named = {name: each for name, each in model.named_parameters() if each.requires_grad}
    if config.recipe == "gpt2":  # nanoGPT's two
        wide, narrow = ([each for each in named.values() if (each.dim() >= 2) is wanted] for wanted in (True, False))
        decay = config.weight_decay
        both = [{"params": wide, "weight_decay": decay}, {"params": narrow, "weight_decay": 0.0}]
        return Groups(both, {}, 1e-8)
    matrices = block_matrices(model)
    others = {name: each for name, each in named.items() if name not in matrices}
    return Groups(_tables_head_and_scalars(others, config), matrices, EPS)


def _tables_head_and_scalars(named: Mapping[str, Tensor], config: TrainConfig) -> list[Group]:
    """Three groups without weight decay, each with its own peak rate."""
    tables, head, scalars = [], [], []
    for name, each in named.items():
        if each.dim() < 2:
            scalars.append(each)
        elif name == "transformer.wte.weight":  # tied to the head
            head.append(each)
        else:
            tables.append(each)
    width = (TUNED_WIDTH / config.n_embd) ** 0.5
    rates = ((tables, TABLE_RATE * width), (head, HEAD_RATE * width), (scalars, SCALAR_RATE))
    return [
        {"params": weights, PEAK: times * config.learning_rate, "weight_decay": 0.0}
        for weights, times in rates
        if weights
    ]
