"""Full memory: how to recognise it, how to free some, and which smaller micro-batch to try next."""

from __future__ import annotations

import gc
import os
import re
import sys
from collections.abc import Callable
from typing import TypeVar

import torch

T = TypeVar("T")

SMALLEST = 1  # sequences in a micro-batch: below that there is nothing to halve
# torch's allocators, the libraries below them and the driver each have their own words for it.
# The last are oneDNN's, on CPUs; what it cannot do at all it calls a primitive descriptor.
_WORDS = re.compile(
    r"out of memory|can't allocate memory|not enough memory|_STATUS_ALLOC_FAILED"
    r"|could not (?:create|execute) a (?:primitive|memory)(?! descriptor)"
)


class FullError(Exception):
    """Memory is full, and this process cannot help itself."""

    def __init__(self, *, halvable: bool = False) -> None:
        super().__init__(halvable)
        self.halvable = halvable  # but a smaller batch_size would help


def is_full(error: BaseException) -> bool:
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    return isinstance(error, RuntimeError) and _WORDS.search(str(error)) is not None


def attempt(do: Callable[[], T]) -> T | None:
    """`do`'s result; None if memory was full. The error is dropped by then, with all that it kept alive."""
    try:
        return do()
    except (RuntimeError, MemoryError) as error:
        if not is_full(error):
            raise
    return None


def make_room(device: torch.device) -> None:
    """Free unused memory: the blocks that the allocator has cached are of the wrong size."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
    elif device.type == "mps":
        torch.mps.empty_cache()


def waste_less(device: torch.device) -> None:
    """Let torch's allocator map memory page by page, instead of asking for a segment whenever something is large.

    For GPT-2 large, segments leave half a GiB unused. Nothing is changed if the environment configures the allocator,
    or the system cannot do it.
    """
    if any(name in os.environ for name in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")):
        return
    # Without a public name: the environment, which is the public way, is read before anybody asks us.
    if device.type == "cuda" and sys.platform == "linux" and hasattr(torch._C, "_accelerator_setAllocatorSettings"):
        torch._C._accelerator_setAllocatorSettings("expandable_segments:True")


def smaller(batch_size: int) -> int | None:
    """Half, or the next smaller divisor, so that the same sequences fill all micro-batches. None if there is none."""
    if batch_size <= SMALLEST:
        return None
    return next(each for each in range(batch_size // 2, 0, -1) if batch_size % each == 0)
