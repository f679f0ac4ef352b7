"""Divides a kernel's rows among a card's processors."""

from __future__ import annotations

import torch
import triton
from torch import Tensor

_PROGRAMS_PER_PROCESSOR = 6  # enough loads in flight to hide memory latency
_MOST_STAGES = 4
_SHARED_BYTES = 96 << 10  # of the 99 KB that a program may use on any GeForce card since Ampere


def block_of(width: int) -> int:
    """The smallest power of two that holds a row."""
    return int(triton.next_power_of_2(width))


def warps_of(width: int) -> int:
    """The number of warps that gives each thread about eight values, one wide load of bfloat16."""
    return max(1, min(16, block_of(width) // 256))


def tile_of(heads: int, head: int) -> dict[str, int]:
    """The options of a kernel that loads all heads of a token as one tile: see value_embeddings.py's `tile`."""
    sizes = {"HEADS": heads, "HEAD": head, "ROWS": block_of(heads), "COLUMNS": block_of(head)}
    return {**sizes, "num_warps": warps_of(heads * head)}


def stages_of(width: int, *tensors: Tensor | None) -> int:
    """How many rows of these tensors a loop may have in flight. All but the current one wait in shared memory, so wide
    rows get fewer."""
    row = block_of(width) * sum(each.element_size() for each in tensors if each is not None)
    return min(_MOST_STAGES, 1 + _SHARED_BYTES // row)


def programs(device: torch.device, rows: int) -> int:
    """The number of programs for a kernel in which each one loops over many rows."""
    if device.type != "cuda":
        return max(1, min(rows, 4))
    processors = torch.cuda.get_device_properties(device).multi_processor_count
    return max(1, min(rows, processors * _PROGRAMS_PER_PROCESSOR))
