"""A safetensors file laid out in memory: tensors are copied into it, and it is written to disk as is.

Names, types and shapes determine the header before any value is known. So a checkpoint is copied from the card straight
into its file's bytes, in pinned memory, and a background thread only writes them: no second copy, and no serialising,
which would hold the GIL during the next step. Reading uses the safetensors library.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

TYPE_NAMES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.bfloat16: "BF16",
    torch.float16: "F16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
PIECE = 8 << 20  # bytes per read or write: hashing and the disk both release the GIL


@dataclass(frozen=True, slots=True)
class Written:
    """Size and checksum of an intact file."""

    bytes: int
    sha256: str


class TensorFile:
    """The bytes of one safetensors file, and a view of them for each tensor. Tensors that are `at_home`, in the host's
    memory, are not copied, but written from where they are."""

    def __init__(
        self, tensors: Mapping[str, Tensor], *, pinned: bool, at_home: Callable[[Tensor], bool] | None = None
    ) -> None:
        ordered = sorted(tensors.items(), key=lambda item: (-item[1].element_size(), item[0]))  # keeps all aligned
        header: dict[str, object] = {"__metadata__": {"format": "pt"}}
        end = 0
        for name, tensor in ordered:
            begin, end = end, end + tensor.numel() * tensor.element_size()
            header[name] = {
                "dtype": TYPE_NAMES[tensor.dtype],
                "shape": list(tensor.shape),
                "data_offsets": [begin, end],
            }
        written = json.dumps(header, separators=(",", ":")).encode()
        start = -(-(8 + len(written)) // 64) * 64  # the header is padded, so that the values are aligned
        written = written.ljust(start - 8)
        copied = {name: tensor for name, tensor in ordered if at_home is None or not at_home(tensor)}
        size = start + sum(each.numel() * each.element_size() for each in copied.values())
        self._memory = _allocate(size, pinned)
        opening = bytearray(len(written).to_bytes(8, "little") + written)
        self._memory[:start] = torch.frombuffer(opening, dtype=torch.uint8)
        self._views: dict[str, Tensor] = {}
        self._parts: list[Tensor] = []  # all bytes, in order
        begin, at = 0, start
        for name, tensor in ordered:
            if name in copied:
                size = tensor.numel() * tensor.element_size()
                self._views[name] = self._memory[at : at + size].view(tensor.dtype).view(tensor.shape)
                at += size
            else:
                self._parts += [self._memory[begin:at], tensor.detach().view(-1).view(torch.uint8)]
                begin = at
        self._parts.append(self._memory[begin:at])

    @property
    def pinned(self) -> bool:
        return self._memory.is_pinned()

    def stage(self, tensors: Mapping[str, Tensor]) -> None:
        """Start copying. From a card to pinned memory this returns immediately; the caller waits for the stream."""
        assert tensors.keys() >= self._views.keys()
        for name, view in self._views.items():
            view.copy_(tensors[name], non_blocking=True)

    def write(self, path: Path) -> Written:
        """Write the file and sync it to disk."""
        digest, size = hashlib.sha256(), 0
        with open(path, "wb", buffering=0) as file:
            for part in self._parts:
                memory = part.numpy().data
                size += len(memory)
                for begin in range(0, len(memory), PIECE):
                    piece = memory[begin : begin + PIECE]
                    digest.update(piece)
                    written = 0
                    while written < len(piece):
                        written += file.write(piece[written:])
            os.fsync(file.fileno())
        return Written(size, digest.hexdigest())


def _allocate(size: int, pinned: bool) -> Tensor:
    if pinned:
        try:
            return torch.empty(size, dtype=torch.uint8, pin_memory=True)
        except RuntimeError:  # no more pinned memory: staging waits for each copy, with the same result
            pass
    return torch.empty(size, dtype=torch.uint8)
