"""Checks the headers of a checkpoint's tensor files, names and shapes, before any value is loaded.

A checksum proves that a file is unchanged, not that it belongs to the model in state.json: a directory may have been
put together by hand from runs of two sizes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import torch
from torch import Tensor

from nanopace.errors import InputError
from nanopace.train.checkpoint.tensor_file import TYPE_NAMES
from nanopace.train.models.gpt2 import ModelShape
from nanopace.train.models.weight_shapes import DTYPES, check_said, fast_shape_of, shape_of
from nanopace.train.optim.optimizer import state_shapes

_FLOATS = {TYPE_NAMES[each]: each for each in DTYPES}


def header_of(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file, without values. The library checks the header."""
    return read_header(path)[0]


def read_header(path: Path) -> tuple[dict[str, Tensor], Mapping[str, str]]:
    """The tensors, and the file's metadata."""
    from safetensors import SafetensorError, safe_open

    tensors: dict[str, Tensor] = {}
    try:
        with safe_open(path, framework="pt") as file:
            for name in file.keys():  # noqa: SIM118, not a mapping
                described = file.get_slice(name)
                dtype = _FLOATS.get(described.get_dtype())
                if dtype is None:
                    raise InputError("{path}: {name} is not a weight", path=path, name=name)
                tensors[name] = torch.empty(described.get_shape(), dtype=dtype, device="meta")
            return tensors, file.metadata() or {}
    except (SafetensorError, OSError, ValueError, RuntimeError) as error:
        raise InputError("{path}: is damaged: {reason}", path=path, reason=str(error)) from None


def check_weights(path: Path, weights: Mapping[str, Tensor], said: ModelShape) -> None:
    """Raise unless these are exactly the weights of a model of this shape."""
    if said.recipe == "gpt2":
        found = shape_of(path, weights, n_head=said.n_head, dropout=said.dropout, activation=said.activation)
    else:
        found = fast_shape_of(path, weights, said)
    check_said(path, found, asdict(said))


def check_averages(path: Path, averages: Mapping[str, Tensor], said: ModelShape) -> None:
    """Raise unless these are the optimizer state of a model of this shape."""
    if {name: each.shape for name, each in averages.items()} != state_shapes(said):
        raise InputError("{path}: does not belong to the weights next to it", path=path)
