"""The recipes: which model, which rates, which defaults; and what each ingredient of `fast` is.

muon              Muon for the matrices inside the blocks, AdamW for the rest; without: AdamW for all
normuon           Muon's steps are evened out by neuron
trapezoid         rates rise quickly, stay, and fall in a line over the last `cooldown`; without: the cosine
rope              positions turn queries and keys; without: a table of positions
qk_norm           queries and keys are normed, and cannot run away
relu2             the square of ReLU; without: GELU
soft_cap          logits stay within 15 of 0
value_embeddings  two tables more, mixed into the values of the first and the last two layers

The values lie between those of modded-nanogpt (its records of early 2025) and of nanochat (2026).
"""

from __future__ import annotations

import torch

from nanopace.config import KNOBS, Asked
from nanopace.literals import Value
from nanopace.train.models.fast import FastGPT
from nanopace.train.models.gpt2 import GPT, ModelShape
from nanopace.train.models.init_weights import InitOnDevice

# Times learning_rate. Rows of a table are rarely seen, and each has to get somewhere in the few steps that see it.
TABLE_RATE = 150.0  # of values: 0.3, as nanochat; modded-nanogpt has 0.6
HEAD_RATE = 2.0  # 0.004, also as the table of tokens: both have 0.004 to 0.008
SCALAR_RATE = 10.0  # 0.02: the gates have to move by tenths; modded-nanogpt has 0.04
TUNED_WIDTH = 768  # tables and head: at other widths the rate goes with the root of 1 / n_embd, as in nanochat
EPS = 1e-10  # AdamW's: gradients of rare tokens are small, and 1e-8 would swallow them


def new_model(shape: ModelShape) -> GPT:
    return GPT(shape) if shape.recipe == "gpt2" else FastGPT(shape)


def meta_model(shape: ModelShape) -> GPT:
    """The model with all its names and shapes, on the device meta, where it takes no memory."""
    with torch.device("meta"), InitOnDevice(None):
        return new_model(shape)


def recipe_defaults(recipe: str, max_iters: int) -> dict[str, Value]:
    """The knobs that it sets itself, whatever nanoGPT has."""
    if recipe == "gpt2":
        return {}
    return {
        "learning_rate": 2e-3,  # what AdamW bears for the matrices, without Muon
        "min_lr": 0.0,
        "weight_decay": 0.1,  # on the matrices alone
        "beta1": 0.8,
        "beta2": 0.95,
        "grad_clip": 0.0,  # the length of a gradient means nothing to Muon, and next to nothing to AdamW
        "decay_lr": True,
        "warmup_iters": min(10, max_iters // 25),  # 10 steps lose 0.04 in a run of 100
        "lr_decay_iters": max(1, max_iters),
    }


def foreign_rates(asked: Asked, recipe: str) -> dict[str, Value]:
    """What config files say of the rates, where they say it of another recipe. A flag is meant for this very run."""
    said = asked.overruled if "recipe" in asked.flags else asked.given
    if not asked.files or said.get("recipe", KNOBS["recipe"].default) == recipe:
        return {}
    rates = recipe_defaults("fast", 1)
    return {name: value for name, value in asked.given.items() if name in rates and name not in asked.flags}
