"""Folds a norm's weight into the matrix after it, and unfolds their joint gradient (matrix.py), in one pass each.

d_W = d_(W diag(w)) diag(w)        d_w = sum over the rows of W * d_(W diag(w))
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

_ROWS, _COLUMNS = 8, 256  # of a tile
_MOST_TILES = 8  # that one program sums, one below the other
_ENOUGH_ROWS = 4096  # to fill a card with one-tile programs


def fold(weight: Tensor, norm: Tensor, out: Tensor) -> None:
    """out = weight * norm, rounded to out's dtype."""
    rows, width = weight.shape
    size = (triton.cdiv(rows, _ROWS), triton.cdiv(width, _COLUMNS))
    _fold[size](weight, norm, out, rows, width, ROWS=_ROWS, COLUMNS=_COLUMNS, num_warps=4)


@triton.jit
def _fold(weight, norm, out, rows, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < width
    at = row[:, None] * width + column[None, :]
    here = (row < rows)[:, None] & inside[None, :]
    value = tl.load(weight + at, here, 0.0) * tl.load(norm + column, inside, 0.0)[None, :]
    tl.store(out + at, value.to(out.dtype.element_ty), here)


def plain_unfold(weight: Tensor, norm: Tensor, folded: Tensor) -> tuple[Tensor, Tensor]:
    """d_weight and d_norm: the twin of `unfold`."""
    return folded * norm, (weight * folded).sum(0)


def unfold(weight: Tensor, norm: Tensor, folded: Tensor, d_weight: Tensor, d_norm: Tensor, *, add: bool) -> None:
    """Write d_norm and d_weight; d_weight may be `folded` itself. With `add`, add to d_weight, a separate tensor."""
    rows, width = weight.shape
    tiles = max(1, min(_MOST_TILES, rows // _ENOUGH_ROWS))
    size = (triton.cdiv(rows, _ROWS * tiles), triton.cdiv(width, _COLUMNS))
    sums = torch.empty((size[0], width), device=weight.device, dtype=torch.float32)
    _unfold[size](
        weight, norm, folded, d_weight, sums, rows, width,
        ADD=add, ROWS=_ROWS, COLUMNS=_COLUMNS, TILES=tiles, num_warps=4,
    )  # fmt: skip
    torch.sum(sums, 0, out=d_norm)


@triton.jit
def _unfold(
    weight, norm, folded, d_weight, sums, rows, width,
    ADD: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, TILES: tl.constexpr,
):  # fmt: skip
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < width
    factor = tl.load(norm + column, inside, 0.0)
    total = tl.zeros([COLUMNS], tl.float32)
    for tile in range(TILES):
        row = (tl.program_id(0).to(tl.int64) * TILES + tile) * ROWS + tl.arange(0, ROWS)
        at = row[:, None] * width + column[None, :]
        here = (row < rows)[:, None] & inside[None, :]
        grad = tl.load(folded + at, here, 0.0)
        total += tl.sum(tl.load(weight + at, here, 0.0) * grad, 0)
        grad *= factor[None, :]
        if ADD:
            grad += tl.load(d_weight + at, here, 0.0)
        tl.store(d_weight + at, grad, here)
    tl.store(sums + tl.program_id(0).to(tl.int64) * width + column, total, inside)
