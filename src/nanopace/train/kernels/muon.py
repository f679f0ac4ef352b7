"""Muon's two passes over the weights, before and after its matrix products; torch would make twenty of them.

Momentum and steps of all matrices of one shape lie in one stack each. Gradients and weights do not: each has its own
place, and a kernel finds them in a table of addresses.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from nanopace.train.kernels.rows import block_of, warps_of


class Places:
    """Where the matrices of a stack begin, on the device; made anew when one has moved."""

    def __init__(self) -> None:
        self._known: list[int] = []
        self._table = torch.empty(0)
        self.aligned = False

    def of(self, tensors: Sequence[Tensor], counts: Sequence[int]) -> Tensor:
        """Each tensor holds so many matrices, one above the other."""
        assert all(each.is_contiguous() and each.dtype == torch.float32 for each in tensors)
        begins = [
            each.data_ptr() + part * (each.numel() // count) * each.element_size()
            for each, count in zip(tensors, counts, strict=True)
            for part in range(count)
        ]
        if begins != self._known:
            table, device = torch.tensor(begins, dtype=torch.int64), tensors[0].device
            self._known, self.aligned = begins, all(begin % 16 == 0 for begin in begins) and tensors[0].size(1) % 4 == 0
            # Out of pinned memory nobody has to wait for it.
            self._table = table.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else table
        return self._table


def plain_ahead(gradients: Tensor, momentum: Tensor, share: Tensor, skip: Tensor | None, dtype: torch.dtype) -> Tensor:
    """The twin of `ahead`, which takes a stack of gradients."""
    if skip is not None:  # what goes towards itself stays where it is
        gradients = torch.where(skip > 0, momentum, gradients)
    momentum.lerp_(gradients, 1 - share)
    return gradients.lerp(momentum, share).to(dtype)


def ahead(
    gradients: Tensor, momentum: Tensor, share: Tensor, skip: Tensor | None, dtype: torch.dtype, *, aligned: bool
) -> Tensor:
    """Nesterov's momentum, in `dtype`; `momentum` keeps `share` of what it was. `gradients` is a table of places."""
    count, rows, width = momentum.shape
    out = torch.empty_like(momentum, dtype=dtype)
    _muon_ahead[(count * rows,)](
        gradients,
        momentum,
        out,
        share,
        skip,
        rows,
        width,
        SKIPS=skip is not None,
        ALIGNED=aligned,
        BLOCK=block_of(width),
        num_warps=warps_of(width),
    )
    return out


def plain_subtract(weights: Tensor, change: Tensor, factors: Tensor, decay: float, skip: Tensor | None) -> Tensor:
    """The twin of `subtract`, which takes and gives a stack of weights."""
    after = weights - (change.float() * factors + decay * weights)
    return after if skip is None else torch.where(skip > 0, weights, after)


def subtract(
    weights: Tensor, change: Tensor, factors: Tensor, decay: float, skip: Tensor | None, *, aligned: bool
) -> None:
    """The change, times a factor for each row or each column of a matrix, and the part `decay` of the weight itself.
    `weights` is a table of places."""
    count, rows, width = change.shape
    assert factors.is_contiguous()
    _muon_subtract[(count * rows,)](
        weights,
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
def _place(table, number, ALIGNED: tl.constexpr):
    place = tl.load(table + number).to(tl.pointer_type(tl.float32))
    if ALIGNED:
        place = tl.multiple_of(place, 16)
    return place


@triton.jit
def _muon_ahead(
    gradients, momentum, out, share, skip, rows, width,
    SKIPS: tl.constexpr, ALIGNED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < width
    gradient = _place(gradients, row // rows, ALIGNED) + (row % rows) * width + columns
    at = row * width + columns
    kept = tl.load(share)
    before = tl.load(momentum + at, inside, 0.0)
    slope = tl.load(gradient, inside, 0.0)
    if SKIPS:  # what goes towards itself stays where it is
        slope = tl.where(tl.load(skip) > 0, before, slope)
    after = before + (1 - kept) * (slope - before)
    tl.store(momentum + at, after, inside)
    tl.store(out + at, (slope + kept * (after - slope)).to(out.dtype.element_ty), inside)


@triton.jit
def _muon_subtract(
    weights, change, factors, decay, skip, rows, width,
    BY_ROW: tl.constexpr, DECAYS: tl.constexpr, SKIPS: tl.constexpr, ALIGNED: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < width
    at = _place(weights, row // rows, ALIGNED) + (row % rows) * width + columns
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
