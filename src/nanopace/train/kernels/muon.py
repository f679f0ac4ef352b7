"""Muon's two passes over the weights, before and after its matrix products; torch would need twenty.

The momentum of all matrices of one shape is one stack, and so are their steps. Gradients and weights are not: each has
its own allocation, and a kernel finds them through a table of pointers.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from nanopace.train.kernels.rows import block_of, warps_of


class PointerTable:
    """The addresses of a stack's matrices, on the device; rebuilt when one has moved."""

    def __init__(self) -> None:
        self._known: list[int] = []
        self._table = torch.empty(0)
        self.aligned = False

    def pointers(self, tensors: Sequence[Tensor], counts: Sequence[int]) -> Tensor:
        """The table. Each tensor holds `counts` matrices, one above the other."""
        assert all(each.is_contiguous() and each.dtype == torch.float32 for each in tensors)
        addresses = [
            each.data_ptr() + part * (each.numel() // count) * each.element_size()
            for each, count in zip(tensors, counts, strict=True)
            for part in range(count)
        ]
        if addresses != self._known:
            table, device = torch.tensor(addresses, dtype=torch.int64), tensors[0].device
            self._known = addresses
            self.aligned = all(address % 16 == 0 for address in addresses) and tensors[0].size(1) % 4 == 0
            # From pinned memory, so the host does not wait for the copy.
            self._table = table.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else table
        return self._table


def plain_nesterov_momentum(
    gradients: Tensor, momentum: Tensor, beta: Tensor, skip: Tensor | None, dtype: torch.dtype
) -> Tensor:
    """The twin of `nesterov_momentum`; it takes a stack of gradients."""
    if skip is not None:  # averaging the momentum with itself leaves it unchanged
        gradients = torch.where(skip > 0, momentum, gradients)
    momentum.lerp_(gradients, 1 - beta)
    return gradients.lerp(momentum, beta).to(dtype)


def nesterov_momentum(
    pointers: Tensor, momentum: Tensor, beta: Tensor, skip: Tensor | None, dtype: torch.dtype, *, aligned: bool
) -> Tensor:
    """Nesterov's momentum in `dtype`; updates `momentum`, which keeps the share `beta`. `pointers`: the gradients."""
    count, rows, width = momentum.shape
    out = torch.empty_like(momentum, dtype=dtype)
    _muon_momentum[(count * rows,)](
        pointers,
        momentum,
        out,
        beta,
        skip,
        rows,
        width,
        SKIPS=skip is not None,
        ALIGNED=aligned,
        BLOCK=block_of(width),
        num_warps=warps_of(width),
    )
    return out


def plain_apply_update(weights: Tensor, change: Tensor, factors: Tensor, decay: float, skip: Tensor | None) -> Tensor:
    """The twin of `apply_update`; it takes and returns a stack of weights."""
    after = weights - (change.float() * factors + decay * weights)
    return after if skip is None else torch.where(skip > 0, weights, after)


def apply_update(
    pointers: Tensor, change: Tensor, factors: Tensor, decay: float, skip: Tensor | None, *, aligned: bool
) -> None:
    """Subtract the change, times a factor per row or per column, and the fraction `decay` of the weight itself.
    `pointers`: the weights."""
    count, rows, width = change.shape
    assert factors.is_contiguous()
    _muon_update[(count * rows,)](
        pointers,
        change,
        factors,
        decay,
        skip,
        rows,
        width,
        BY_ROW=factors.size(2) == 1,
        DECAYS=decay > 0,
        SKIPS=skip is not None,
        ALIGNED=aligned,
        BLOCK=block_of(width),
        num_warps=warps_of(width),
    )


@triton.jit
def _pointer(table, number, ALIGNED: tl.constexpr):
    pointer = tl.load(table + number).to(tl.pointer_type(tl.float32))
    if ALIGNED:
        pointer = tl.multiple_of(pointer, 16)
    return pointer


@triton.jit
def _muon_momentum(
    pointers, momentum, out, beta, skip, rows, width,
    SKIPS: tl.constexpr, ALIGNED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < width
    gradient = _pointer(pointers, row // rows, ALIGNED) + (row % rows) * width + columns
    at = row * width + columns
    kept = tl.load(beta)
    before = tl.load(momentum + at, inside, 0.0)
    grad = tl.load(gradient, inside, 0.0)
    if SKIPS:  # averaging the momentum with itself leaves it unchanged
        grad = tl.where(tl.load(skip) > 0, before, grad)
    after = before + (1 - kept) * (grad - before)
    tl.store(momentum + at, after, inside)
    tl.store(out + at, (grad + kept * (after - grad)).to(out.dtype.element_ty), inside)


@triton.jit
def _muon_update(
    pointers, change, factors, decay, skip, rows, width,
    BY_ROW: tl.constexpr, DECAYS: tl.constexpr, SKIPS: tl.constexpr, ALIGNED: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < width
    at = _pointer(pointers, row // rows, ALIGNED) + (row % rows) * width + columns
    weight = tl.load(at, inside, 0.0)
    if BY_ROW:
        factor = tl.load(factors + row)
    else:
        factor = tl.load(factors + (row // rows) * width + columns, inside, 0.0)
    step = tl.load(change + row * width + columns, inside, 0.0).to(tl.float32) * factor
    after = weight - step
    if DECAYS:
        after -= weight * decay
    if SKIPS:
        after = tl.where(tl.load(skip) > 0, weight, after)
    tl.store(at, after, inside)
