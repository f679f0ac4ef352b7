"""The recipes: their models, learning rates and defaults. The ingredients of `fast`:

muon              Muon for the matrices inside the blocks, AdamW for the rest; without it, AdamW for all
normuon           normalises Muon's steps per neuron
trapezoid         rates rise quickly, stay, and fall linearly over the last `cooldown`; without it, the cosine
rope              positions rotate queries and keys; without it, a position table
qk_norm           queries and keys are normed, and cannot blow up
relu2             ReLU squared; without it, GELU
soft_cap          logits stay between -15 and 15
value_embeddings  two more tables, mixed into the values of the first two and the last two layers
key_shift         half of each head does not rotate, and in every fourth layer, that half of the keys is the previous
                  token's
xsa               attention's output without a learned share of its part along the token's own value

The values lie between those of modded-nanogpt (records of early 2025; the last two, of 2026) and nanochat (2026).
"""

from __future__ import annotations

import math

import torch
from torch import nn

from nanopace.config import KNOBS, Asked
from nanopace.literals import Value
from nanopace.train.models.fast import FastGPT
from nanopace.train.models.gpt2 import GPT, ModelShape
from nanopace.train.models.init_weights import InitOnDevice

# Times learning_rate. A table's row is rarely used, and has to move far in the few steps that use it.
TABLE_RATE = 150.0  # value embeddings: 0.3, as in nanochat; modded-nanogpt has 0.6
HEAD_RATE = 2.0  # 0.004, also for the token table: both have 0.004 to 0.008
SCALAR_RATE = 10.0  # 0.02: the gates have to move by tenths; modded-nanogpt has 0.04
TUNED_WIDTH = 768  # for tables and head, the rate scales with the root of 1 / n_embd, as in nanochat
WIDE_HEAD = 128  # twice GPT-2's: faster, and a little better (docs/experiments/recipes.md)
EPS = 1e-10  # AdamW's: gradients of rare tokens are small, and 1e-8 would swamp them

# How defaults follow the length of a run, from what was tried at GPT-2's size (docs/recipes.md#by-length). Muon's rate
# falls with the root of the steps, but stays between those that were best in the shortest and the longest run tried.
MATRIX_RATE, OF_STEPS = 0.02, 500
LEAST_MATRIX_RATE, MOST_MATRIX_RATE = 0.01, 0.03
COOLDOWN = 0.6
# A step's tokens grow with the root of all tokens: rare steps of many tokens waste them early, when one direction is
# as good as another.
STEP_TOKENS, OF_TOKENS = 1 << 15, 16e6
MOST_STEP_TOKENS = 1 << 19  # GPT-2's, and nanoGPT's

ONLY_READ_BY_FAST = {"matrix_lr", "cooldown"}


def new_model(shape: ModelShape) -> GPT:
    return GPT(shape) if shape.recipe == "gpt2" else FastGPT(shape)


def meta_model(shape: ModelShape) -> GPT:
    """The model with all its names and shapes on the meta device, where it takes no memory."""
    with torch.device("meta"), InitOnDevice(None):
        return new_model(shape)


def block_matrices(model: nn.Module) -> dict[str, nn.Parameter]:
    """The matrices inside the blocks: most of the weights, used one block after the other."""
    named = model.named_parameters()
    return {name: each for name, each in named if name.startswith("transformer.h.") and each.dim() == 2}


def shape_defaults(recipe: str, n_embd: int) -> dict[str, Value]:
    """The knobs of the model's shape for which the recipe has its own defaults."""
    wide = recipe != "gpt2" and n_embd >= TUNED_WIDTH and n_embd % WIDE_HEAD == 0
    return {"n_head": n_embd // WIDE_HEAD} if wide else {}


def recipe_defaults(recipe: str, max_iters: int) -> dict[str, Value]:
    """The knobs of the optimizer for which the recipe has its own defaults instead of nanoGPT's, or a rule."""
    if recipe == "gpt2":
        return {}
    return {
        "learning_rate": 2e-3,  # as high as AdamW tolerates for the matrices, without Muon
        "min_lr": 0.0,
        "weight_decay": 0.1,  # of the matrices only
        "beta1": 0.8,
        "beta2": 0.95,
        "grad_clip": 0.0,  # a gradient's norm does not matter to Muon, and hardly to AdamW
        "decay_lr": True,
        "warmup_iters": min(10, max_iters // 25),  # 10 steps lose 0.04 in a run of 100
        "lr_decay_iters": max(1, max_iters),
        "matrix_lr": matrix_rate(max_iters),
        "cooldown": COOLDOWN,
    }


def matrix_rate(steps: int) -> float:
    """Muon's best rate for a run of that many steps."""
    rate = MATRIX_RATE * math.sqrt(OF_STEPS / max(1, steps))
    return float(f"{min(MOST_MATRIX_RATE, max(LEAST_MATRIX_RATE, rate)):.2g}")


def step_tokens(tokens: float) -> int:
    """How many tokens a step should have in a run of `tokens`: a power of two."""
    wanted = STEP_TOKENS * math.sqrt(max(1.0, tokens) / OF_TOKENS)
    return min(MOST_STEP_TOKENS, 1 << max(0, round(math.log2(wanted))))


def foreign_settings(asked: Asked, recipe: str, *, new: bool) -> dict[str, Value]:
    """What config files say that were written for another recipe: learning rates, and for a new model the number of
    heads, if this recipe has its own. Flags always apply to this run."""
    said = asked.overruled if "recipe" in asked.flags else asked.given
    if not asked.files or said.get("recipe", KNOBS["recipe"].default) == recipe:
        return {}
    shape = shape_defaults(recipe, int(asked.given.get("n_embd", KNOBS["n_embd"].default))) if new else {}
    own = (shape.keys() | recipe_defaults("fast", 1).keys()) - ONLY_READ_BY_FAST
    return {name: value for name, value in asked.given.items() if name in own and name not in asked.flags}
