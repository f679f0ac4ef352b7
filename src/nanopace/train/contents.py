"""What lies in a checkpoint's tensor files, by their headers: names and shapes, before a single value is loaded.

A checksum says that a file is the one which was written. It does not say that it belongs to the model that state.json
tells of: somebody may have put a directory together by hand, from runs of two sizes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import torch
from torch import Tensor

from nanopace.config import left_out
from nanopace.errors import ConfigError, InputError
from nanopace.train.model import ACTIVATIONS, ModelShape
from nanopace.train.muon import MOMENTUM_NAME, SQUARE_NAME
from nanopace.train.optimizer import remembered
from nanopace.train.pretrained import check_said, fast_shape_of, shape_of

# How the names of the optimizer's tensors begin: AdamW's averages, its count, and what Muon has beside a count.
AVERAGES, COUNT = ("exp_avg.", "exp_avg_sq."), "step."
OF_OPTIMIZERS = (*AVERAGES, COUNT, f"{MOMENTUM_NAME}.", f"{SQUARE_NAME}.")


def header_of(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file, each without values; the library checks the header."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            return {name: torch.empty(file.get_slice(name).get_shape(), device="meta") for name in file.keys()}  # noqa: SIM118, no mapping
    except (SafetensorError, OSError, ValueError, RuntimeError) as error:
        raise InputError("{path}: is damaged: {reason}", path=path, reason=str(error)) from None


def check_weights(path: Path, weights: Mapping[str, Tensor], said: ModelShape) -> None:
    """These are all the weights of a model of the shape that was said, and no others."""
    _check_known(path, said)
    if said.recipe == "gpt2":
        found = shape_of(path, weights, n_head=said.n_head, dropout=said.dropout, activation=said.activation)
    else:
        check_shape(path, said)
        found = fast_shape_of(path, weights, said)
    check_said(path, found, asdict(said))


def check_averages(path: Path, averages: Mapping[str, Tensor], weights: Mapping[str, Tensor], said: ModelShape) -> None:
    """These are what the recipe's optimizer remembers of these weights, which have been checked."""
    if said.recipe == "gpt2":
        expected = {f"{what}{name}": each.shape for what in AVERAGES for name, each in weights.items()}
        expected |= {f"{COUNT}{name}": torch.Size() for name in weights}
    else:
        expected = remembered(said)
    if {name: each.shape for name, each in averages.items()} != expected:
        raise InputError("{path}: does not belong to the weights beside it", path=path)


def check_shape(path: Path, said: ModelShape) -> None:
    """A shape that a model can have, where there is no header to hold it against."""
    counts = (said.n_layer, said.n_head, said.n_embd, said.vocab_size, said.block_size)
    if not all(type(each) is int and 0 < each < 1 << 31 for each in counts) or type(said.bias) is not bool:
        raise InputError("{path}: tells of a model that nanopace does not know", path=path)
    _check_known(path, said)


def _check_known(path: Path, said: ModelShape) -> None:
    known = isinstance(said.activation, str) and said.activation in ACTIVATIONS and _is_recipe(said)
    if not known or not isinstance(said.dropout, (int, float)) or not 0 <= said.dropout < 1:
        raise InputError("{path}: tells of a model that nanopace does not know", path=path)


def _is_recipe(said: ModelShape) -> bool:
    try:
        return isinstance(said.without, str) and ",".join(left_out(said.recipe, said.without)) == said.without
    except (ConfigError, KeyError, TypeError):
        return False
