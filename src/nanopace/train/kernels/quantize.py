"""Casts a matrix to 8 bits, in its own layout and transposed, in one pass; torch would need four."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

_SIDE = 64  # of a tile: both layouts are then written in pieces of 64 bytes
_WARPS = 4


def plain_quantize(matrix: Tensor, scale: Tensor, values: Tensor | None, transposed: Tensor | None) -> None:
    """The twin of `quantize`."""
    for into, rounded in ((values, matrix), (transposed, matrix.t())):
        if into is not None:
            into.copy_(rounded.float() / scale)


def quantize(matrix: Tensor, scale: Tensor, values: Tensor | None, transposed: Tensor | None) -> None:
    """The matrix divided by `scale`: `values` and `transposed` receive it, if they are given."""
    rows, columns = matrix.shape
    _quantize[(triton.cdiv(rows, _SIDE), triton.cdiv(columns, _SIDE))](
        matrix,
        scale,
        values,
        transposed,
        rows,
        columns,
        VALUES=values is not None,
        TRANSPOSED=transposed is not None,
        SIDE=_SIDE,
        num_warps=_WARPS,
    )


@triton.jit
def _quantize(
    matrix, scale, values, transposed, rows, columns,
    VALUES: tl.constexpr, TRANSPOSED: tl.constexpr, SIDE: tl.constexpr,
):  # fmt: skip
    row = (tl.program_id(0) * SIDE + tl.arange(0, SIDE))[:, None]
    column = (tl.program_id(1) * SIDE + tl.arange(0, SIDE))[None, :]
    inside = (row < rows) & (column < columns)
    tile = tl.load(matrix + row * columns + column, inside, 0.0).to(tl.float32) / tl.load(scale)
    if VALUES:
        tl.store(values + row * columns + column, tile.to(values.dtype.element_ty), inside)
    if TRANSPOSED:
        tl.store(transposed + column * rows + row, tile.to(transposed.dtype.element_ty), inside)
