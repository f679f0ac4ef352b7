"""Tensors from files that hold parts of them, by torch.distributed.checkpoint: whoever wrote which part.

Only safetensors are read, never a pickle. A file that is not sharded holds one part, the whole, so a checkpoint of a
single rank is read by many in the same way.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch import Tensor


def fill(tensors: Mapping[str, Tensor], directory: Path, *, alone: bool) -> None:
    """Copy from a checkpoint's files into these tensors, of which each rank may hold a part."""
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
    from torch.distributed.checkpoint.state_dict_loader import load

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a single process is alone
        load(
            {name: each.detach() for name, each in tensors.items()},
            storage_reader=HuggingFaceStorageReader(str(directory)),
            no_dist=alone,
        )


def read_whole(directory: Path, wanted: Callable[[str], bool]) -> dict[str, Tensor]:
    """Every wanted tensor of a sharded checkpoint, put together on the host."""
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
    from torch.distributed.checkpoint.metadata import TensorStorageMetadata

    listed = HuggingFaceStorageReader(str(directory)).read_metadata().state_dict_metadata
    tensors = {
        name: torch.empty(each.size, dtype=each.properties.dtype)
        for name, each in listed.items()
        if wanted(name) and isinstance(each, TensorStorageMetadata)
    }
    fill(tensors, directory, alone=True)
    return tensors
