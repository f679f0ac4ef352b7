"""One checksum per tensor, for all tensors in one launch: the sum of their bits, as integers.

Sums of integers do not depend on their order, so here atomic additions give the same result every time. If a single bit
changes, so does the sum.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

_WORDS = 8192  # of 4 bytes, per program


def plain_checksums(tensors: Sequence[Tensor]) -> Tensor:
    """The twin of `checksums`."""
    return torch.stack([each.reshape(-1).view(torch.int32).sum(dtype=torch.int64) for each in tensors])


def checksums(tensors: Sequence[Tensor], plan: Tensor | None = None) -> Tensor:
    """Their sums. All of them are contiguous and consist of whole words. `plan` is `checksum_plan`'s for the same
    tensors."""
    programs = checksum_plan(tensors) if plan is None else plan
    sums = torch.zeros(len(tensors), device=tensors[0].device, dtype=torch.int64)
    _checksum[(len(programs),)](programs, sums, WORDS=_WORDS, num_warps=8)
    return sums


def checksum_plan(tensors: Sequence[Tensor]) -> Tensor:
    """What each program sums: whose sum it adds to, an address, and a number of words. Valid until a tensor moves."""
    rows = [
        (number, tensor.data_ptr() + 4 * first, min(_WORDS, words - first))
        for number, tensor in enumerate(tensors)
        for words in (tensor.numel() * tensor.element_size() // 4,)
        for first in range(0, words, _WORDS)
    ]
    return torch.tensor(rows, dtype=torch.int64).to(tensors[0].device)


@triton.jit
def _checksum(programs, sums, WORDS: tl.constexpr):
    programs += tl.program_id(0).to(tl.int64) * 3
    words = tl.load(programs + 1).to(tl.pointer_type(tl.int32))
    at = tl.arange(0, WORDS)
    value = tl.load(words + at, at < tl.load(programs + 2), 0)
    tl.atomic_add(sums + tl.load(programs), tl.sum(value.to(tl.int64), 0))
