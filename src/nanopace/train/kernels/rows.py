"""How a kernel divides rows among a card's processors."""

from __future__ import annotations

import torch
import triton
from torch import Tensor

_PROGRAMS_PER_PROCESSOR = 6  # enough loads on their way to hide the memory's latency
_MOST_STAGES = 4
_SHARED_BYTES = 96 << 10  # of 99 KB, the most that a program may have on a GeForce card of any generation since Ampere


def block_of(width: int) -> int:
    """The power of two that holds a row."""
    return int(triton.next_power_of_2(width))


def warps_of(width: int) -> int:
    """So that a thread has about eight values, which is one wide load of bfloat16."""
    return max(1, min(16, block_of(width) // 256))


def stages_of(width: int, *tensors: Tensor | None) -> int:
    """How many rows of these a loop may have on their way. All but the one in work wait in shared memory, so that of
    wide rows there are fewer."""
    row = block_of(width) * sum(each.element_size() for each in tensors if each is not None)
    return min(_MOST_STAGES, 1 + _SHARED_BYTES // row)


def programs(device: torch.device, rows: int) -> int:
    """For a kernel that takes many rows each, and sums over them."""
    if device.type != "cuda":
        return max(1, min(rows, 4))
    processors = torch.cuda.get_device_properties(device).multi_processor_count
    return max(1, min(rows, processors * _PROGRAMS_PER_PROCESSOR))
