"""Reads a model's shape from its weights.

What a file claims about its weights is checked against them, so that nothing is built from an unchecked number.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from nanopace.errors import InputError
from nanopace.knob_values import INGREDIENTS
from nanopace.literals import shown
from nanopace.train.models.gpt2 import ModelShape
from nanopace.train.models.recipes import meta_model

TOKENS, POSITIONS, HEAD = "transformer.wte.weight", "transformer.wpe.weight", "lm_head.weight"
_LAYER = re.compile(r"transformer\.h\.(\d{1,6})\.")
_MANY = 100  # layers: more than a real model has
_OF_A_LAYER = 6  # weights, without biases
DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)


def shape_of(
    path: Path, weights: Mapping[str, Tensor], *, n_head: object, dropout: float, activation: str = "gelu"
) -> ModelShape:
    """The shape of the weights. They do not show the number of heads, so it has to be given."""
    tables = [weights.get(name) for name in (TOKENS, POSITIONS)]
    if any(table is None or table.dim() != 2 or table.numel() == 0 for table in tables):
        raise InputError("{path}: is not a GPT-2: it lacks the tables of tokens and positions", path=path)
    (vocab_size, n_embd), (block_size, _) = (table.shape for table in tables if table is not None)
    if not isinstance(n_head, int) or isinstance(n_head, bool) or n_head < 1 or n_embd % n_head:
        raise InputError(
            "{path}: n_head must divide n_embd: there are {n_head} heads, but the weights are {n_embd} wide",
            path=path,
            n_head=shown(n_head),
            n_embd=n_embd,
        )
    shape = ModelShape(
        n_layer=_layers(path, weights),
        n_head=n_head,
        n_embd=n_embd,
        vocab_size=vocab_size,
        block_size=block_size,
        bias="transformer.ln_f.bias" in weights,
        dropout=dropout,
        activation=activation,
    )
    _check_names(path, weights, shape)
    return shape


def fast_shape_of(path: Path, weights: Mapping[str, Tensor], said: ModelShape) -> ModelShape:
    """The shape of another recipe's weights, as far as they show it; the rest is taken from `said`."""
    table, positions = weights.get(TOKENS), weights.get(POSITIONS)
    if table is None or table.dim() != 2 or table.numel() == 0 or table.size(1) % said.n_head:
        raise _foreign(path, TOKENS, said)
    shape = replace(
        said,
        n_layer=_layers(path, weights),
        n_embd=table.size(1),
        vocab_size=table.size(0),
        block_size=said.block_size if positions is None or positions.dim() != 2 else positions.size(0),
    )
    expected, found_sizes = weight_shapes(shape), {name: each.shape for name, each in weights.items()}
    if weights.get(HEAD) is table:  # one tensor with two names
        found_sizes.pop(HEAD)
    wrong = sorted(name for name in expected.keys() | found_sizes.keys() if expected.get(name) != found_sizes.get(name))
    if wrong:
        raise _foreign(path, wrong[0], said)
    return shape


def without_unlisted(path: Path, recipe: str, listed: Collection[object]) -> str:
    """What a model that lists its ingredients does without: a later version may have more."""
    known = INGREDIENTS[recipe]
    for name in listed:
        if name not in known:
            raise InputError(
                "{path}: the model has {name}, which this version of nanopace does not know; use the one that wrote it",
                path=path,
                name=shown(name),
            )
    return ",".join(name for name in known if name not in listed)


def _layers(path: Path, weights: Mapping[str, Tensor]) -> int:
    """The number of layers in the names; at least one, so that a model without layers gets an error for what it lacks.
    A model on the meta device is built from it, so a few bytes must not claim thousands."""
    count = len({found[1] for found in map(_LAYER.match, weights) if found is not None})
    if count > _MANY and count * _OF_A_LAYER > len(weights):
        raise InputError(
            "{path}: is not a GPT-2: {weights} weights are too few for {layers} layers",
            path=path,
            weights=len(weights),
            layers=count,
        )
    return max(1, count)


def _foreign(path: Path, name: str, said: ModelShape) -> InputError:
    return InputError(
        "{path}: {name} does not belong to a model of recipe={recipe}", path=path, name=name, recipe=said.recipe
    )


def check_said(path: Path, shape: ModelShape, said: Mapping[str, object]) -> None:
    """Check what the file claims about its weights against them; None means that it claims nothing."""
    for name, value in said.items():
        found = getattr(shape, name)
        if value is not None and value != found:
            raise InputError(
                "{path}: says {name} = {said}, but its weights have {found}",
                path=path,
                name=name,
                said=shown(value),
                found=found,
            )


def weight_shapes(shape: ModelShape) -> dict[str, torch.Size]:
    """The weights of a model of this shape, in nanoGPT's order."""
    return {name: each.shape for name, each in meta_model(shape).named_parameters()}


def _check_names(path: Path, weights: Mapping[str, Tensor], shape: ModelShape) -> None:
    expected = weight_shapes(shape)
    for name, size in expected.items():
        if name not in weights:
            raise InputError("{path}: is not a GPT-2: it has no weight named {name}", path=path, name=name)
        if weights[name].shape != size:
            raise InputError(
                "{path}: {name} is {found}, where a GPT-2 of its size has {expected}",
                path=path,
                name=name,
                found=_product(weights[name].shape),
                expected=_product(size),
            )
    for name in weights:
        if name not in expected and name != HEAD:
            raise InputError("{path}: is not a GPT-2: it has a weight named {name}", path=path, name=name)


def _product(size: torch.Size) -> str:
    return "×".join(map(str, size))
