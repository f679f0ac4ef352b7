"""Out of memory: how to recognise it, how to free some, and which smaller micro-batch to try next."""

from __future__ import annotations

import gc
import os
import re
import sys
from collections.abc import Callable
from typing import TypeVar

import torch

T = TypeVar("T")

SMALLEST = 1  # sequences in a micro-batch: one cannot be halved
# torch's allocators, the libraries below them and the driver each word it differently.
# The last line matches oneDNN on CPUs; it says "primitive descriptor" for operations it does not support at all.
_WORDS = re.compile(
    r"out of memory|can't allocate memory|not enough memory|_STATUS_ALLOC_FAILED"
    r"|could not (?:create|execute) a (?:primitive|memory)(?! descriptor)"
)


class FullError(Exception):
    """Memory is full, and this process cannot recover."""

    def __init__(self, *, halvable: bool = False) -> None:
        super().__init__(halvable)
        self.halvable = halvable  # but a smaller batch_size would help


def is_full(error: BaseException) -> bool:
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    return isinstance(error, RuntimeError) and _WORDS.search(str(error)) is not None


def attempt(do: Callable[[], T]) -> T | None:
    """`do`'s result; None if memory was full. The error is dropped first, with everything it kept alive."""
    try:
        return do()
    except (RuntimeError, MemoryError) as error:
        if not is_full(error):
            raise
    return None


def make_room(device: torch.device) -> None:
    """Free unused memory: the blocks the allocator has cached have the wrong sizes."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
    elif device.type == "mps":
        torch.mps.empty_cache()


def waste_less(device: torch.device) -> None:
    """Let torch's allocator map memory page by page instead of reserving a segment for each large request.

    For GPT-2 large, segments leave half a GiB unused. Does nothing if the environment configures the allocator or the
    system does not support it.
    """
    if any(name in os.environ for name in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")):
        return
    # A private API: the public way is the environment, which torch has already read by now.
    if device.type == "cuda" and sys.platform == "linux" and hasattr(torch._C, "_accelerator_setAllocatorSettings"):
        torch._C._accelerator_setAllocatorSettings("expandable_segments:True")


def smaller(batch_size: int) -> int | None:
    """Half of it, or the next smaller divisor, so that all micro-batches stay full. None if there is none."""
    if batch_size <= SMALLEST:
        return None
    return next(each for each in range(batch_size // 2, 0, -1) if batch_size % each == 0)
