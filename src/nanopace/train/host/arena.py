"""One block of host memory for everything a run keeps there, pinned if the system allows it.

A card copies from pinned memory by itself, at the full rate of the bus. torch's own pinned memory would round every
tensor up to a power of two.
"""

from __future__ import annotations

import mmap
import weakref
from contextlib import suppress
from math import prod
from pathlib import Path

import torch
from torch import Tensor

from nanopace.errors import UsageError
from nanopace.hardware.memory import GIB

_ALIGNED = 256  # bytes: what a card's copies and kernels like
_LEFT = GIB  # for everything else on this machine, which must not start to swap
_LIMITS = (  # how much a container may use, how much it uses, and for what
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory.stat"),
    (
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "/sys/fs/cgroup/memory/memory.usage_in_bytes",
        "/sys/fs/cgroup/memory/memory.stat",
    ),
)


class Arena:
    """Hands out tensors until it is full. `device`: of the card that will copy them. Whether there is room for it is
    asked before, once for everything (`check_room`)."""

    def __init__(self, size: int, device: torch.device | None = None) -> None:
        try:
            self._memory = mmap.mmap(-1, max(size, _ALIGNED))  # full of zeros
        except OSError:
            raise UsageError(
                "memory=host needs {need:.1f} GiB of host memory, which the system refuses; use a smaller model",
                need=size / GIB,
            ) from None
        if hasattr(mmap, "MADV_HUGEPAGE"):
            with suppress(OSError):  # a kernel without such pages
                self._memory.madvise(mmap.MADV_HUGEPAGE)  # faster to pin, and to walk through
        self._bytes = torch.frombuffer(self._memory, dtype=torch.uint8)
        self._bytes = self._bytes[:size]
        self._used = 0
        self.pinned = False
        if device is not None:
            self.pin(device)

    def pin(self, device: torch.device) -> None:
        self.pinned = device.type == "cuda" and len(self._bytes) > 0 and _pin(self._bytes, device)
        if self.pinned:
            weakref.finalize(self, _unpin, self._bytes.data_ptr()).atexit = False

    def empty(self, like: Tensor) -> Tensor:
        """A tensor like this one, with zeros."""
        begin, size = self._used, like.nbytes
        self._used += place(size)
        assert self._used <= len(self._bytes), "the arena was made for less"
        return self._bytes[begin : begin + size].view(like.dtype).view(like.shape)

    def holds(self, tensor: Tensor) -> bool:
        return 0 <= tensor.data_ptr() - self._bytes.data_ptr() < len(self._bytes)

    @property
    def free(self) -> int:
        return len(self._bytes) - self._used

    def __len__(self) -> int:
        return len(self._bytes)


def place(size: int) -> int:
    """The bytes that a tensor of `size` bytes takes in an arena."""
    return -(-size // _ALIGNED) * _ALIGNED


def place_of(shape: torch.Size, dtype: torch.dtype = torch.float32) -> int:
    return place(prod(shape) * dtype.itemsize)


def check_room(size: int) -> None:
    """Raise if this much host memory is not free: the system would kill the run later, in the middle of a step."""
    free = available_bytes()
    if free is not None and size > free - _LEFT:
        raise UsageError(
            "memory=host needs {need:.1f} GiB of host memory, but only {free:.1f} GiB are free, of which 1 GiB is left "
            "for other programs; close some of them, or use a smaller model",
            need=size / GIB,
            free=free / GIB,
        )


def available_bytes() -> int | None:
    """The host memory that this process could still use; None if the system does not say."""
    free = [_available_of_machine(), *(_available_of_container(*each) for each in _LIMITS)]
    return min((each for each in free if each is not None), default=None)


def _available_of_machine() -> int | None:
    for line in _read("/proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def _available_of_container(limit: str, usage: str, what_for: str) -> int | None:
    most, used = _read(limit).strip(), _read(usage).strip()
    if not (most.isdigit() and used.isdigit()):
        return None
    return max(0, int(most) - max(0, int(used) - _bytes_of_files(_read(what_for))))


def _bytes_of_files(what_for: str) -> int:
    """What was read or written stays in memory, and counts as used, but only as long as nothing else needs the room."""
    known = dict(pair for line in what_for.splitlines() if len(pair := line.split()) == 2)
    names = ("active_file", "inactive_file")  # version 1 has totals as well, with the groups inside
    return sum(int(known.get(f"total_{name}", known.get(name, "0"))) for name in names)


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def _pin(memory: Tensor, device: torch.device) -> bool:
    """Whether the system let us pin it. Without, copies take longer and cannot overlap with anything."""
    pinned = int(torch.cuda.cudart().cudaHostRegister(memory.data_ptr(), memory.numel(), 0)) == 0
    if not pinned:
        # CUDA keeps the error for whoever asks next, which would be an innocent kernel. torch has no function for that.
        with suppress(RuntimeError):
            torch.zeros(1, device=device)
    return pinned


def _unpin(address: int) -> None:
    torch.cuda.cudart().cudaHostUnregister(address)
