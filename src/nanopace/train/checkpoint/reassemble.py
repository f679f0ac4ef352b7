"""Reassembles full tensors from files that hold parts of them, with torch.distributed.checkpoint.

It reads safetensors only, never a pickle. In an unsharded file, the one part is the full tensor, so several ranks can
read a single rank's checkpoint the same way.

torch does not check that the parts cover a tensor, and leaves the rest uninitialised. So `full_header` first makes sure
that they cover every element exactly once.
"""

from __future__ import annotations

import json
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from nanopace.errors import InputError
from nanopace.train.checkpoint.headers import read_header

_NOTE = "DCP_SHARDING_INFO"  # torch's key for the offsets of the parts


class _Part(NamedTuple):
    """Part of a tensor, in one of the files."""

    path: Path
    offsets: tuple[int, ...]
    tensor: Tensor  # without values


def fill(tensors: Mapping[str, Tensor], directory: Path, *, alone: bool) -> None:
    """Copy a checkpoint's files into these tensors. With several ranks, each passes its own parts."""
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
    from torch.distributed.checkpoint.state_dict_loader import load

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns if there is only one process
        load(
            {name: each.detach() for name, each in tensors.items()},
            storage_reader=HuggingFaceStorageReader(str(directory)),
            no_dist=alone,
        )


def read_full(directory: Path, wanted: Callable[[str], bool]) -> dict[str, Tensor]:
    """The wanted tensors of a verified sharded checkpoint, reassembled on the host."""
    listed = full_header(sorted(directory.glob("*.safetensors")))
    tensors = {name: torch.empty_like(each, device="cpu") for name, each in listed.items() if wanted(name)}
    fill(tensors, directory, alone=True)
    return tensors


def full_header(paths: Sequence[Path]) -> dict[str, Tensor]:
    """Every tensor that these files hold parts of, without values; InputError if the parts do not cover it."""
    parts: dict[str, list[_Part]] = defaultdict(list)
    for path in paths:
        for name, part in _parts_in(path):
            parts[name].append(part)
    return {name: _joined(name, found) for name, found in parts.items()}


def _parts_in(path: Path) -> Iterator[tuple[str, _Part]]:
    tensors, noted = read_header(path)
    try:
        places = json.loads(noted[_NOTE]) if noted.get(_NOTE) else None
        for name, tensor in tensors.items():
            offsets = [0] * tensor.dim() if places is None else places[name]["saved_offsets"]
            if len(offsets) != tensor.dim() or not all(type(each) is int and 0 <= each < 1 << 40 for each in offsets):
                raise ValueError(offsets)
            yield name, _Part(path, tuple(offsets), tensor)
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InputError("{path}: does not say where its parts of the weights belong", path=path) from None


def _joined(name: str, parts: Sequence[_Part]) -> Tensor:
    """The full tensor. Parts are cut along the first dimension only, so each begins where the previous one ends."""
    first, *_ = parts = sorted(parts, key=lambda part: part.offsets)
    end = 0
    for part in parts:
        size = part.tensor.shape
        fits = part.tensor.dtype == first.tensor.dtype and size[1:] == first.tensor.shape[1:]
        behind = part.offsets == ((end, *[0] * (len(size) - 1)) if size else ())
        if not fits or not behind or (not size and part is not first):
            raise InputError(
                "{path}: its part of {name} does not fit those in the files next to it", path=part.path, name=name
            )
        end += size[0] if size else 0
    shape = (end, *first.tensor.shape[1:]) if first.tensor.dim() else ()
    return torch.empty(shape, dtype=first.tensor.dtype, device="meta")
