"""Takes a share of a token's own value out of attention's output, with a backward pass that recomputes what it needs.

The share is the tanh of a learned number per head. models/fast.py explains it.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from nanopace.train.kernels.rows import programs, tile_of
from nanopace.train.kernels.value_embeddings import tile
from nanopace.train.models.fast import without_own_value

EPSILON = 1e-6


def plain_without_own(out: Tensor, packed: Tensor, share: Tensor) -> Tensor:
    """The twin of `without_own`."""
    batch, heads, length, head = out.shape
    values = packed.view(batch, length, 3, heads, head)[:, :, 2]
    return without_own_value(out.transpose(1, 2), values, share).to(packed.dtype).reshape(batch * length, -1)


def without_own(out: Tensor, packed: Tensor, share: Tensor) -> Tensor:
    """One row per token, from attention's output (batch, heads, length, head) and rows of [queries, keys, values]."""
    batch, heads, length, head = out.shape
    rows = torch.empty((batch * length, heads * head), device=out.device, dtype=out.dtype)
    _without_own_forward[(batch * length,)](
        out,
        packed,
        share,
        rows,
        *out.stride()[:3],
        length,
        EPSILON,
        **tile_of(heads, head),
    )
    return rows


def without_own_backward(
    d_rows: Tensor, out: Tensor, packed: Tensor, share: Tensor, d_share: Tensor
) -> tuple[Tensor, Tensor]:
    """Turn the gradient of the rows into that of attention's output, in place; add to the share's. Returns the rows
    again, and the gradient of the values that does not come through attention."""
    _, heads, length, head = out.shape
    rows, d_values = torch.empty_like(d_rows), torch.empty_like(d_rows)
    size = programs(out.device, len(d_rows))
    sums = torch.empty((size, heads), device=out.device, dtype=torch.float32)
    _without_own_backward[(size,)](
        d_rows,
        out,
        packed,
        share,
        rows,
        d_values,
        sums,
        *out.stride()[:3],
        length,
        len(d_rows),
        EPSILON,
        **tile_of(heads, head),
    )
    d_share.add_(sums.sum(0))
    return rows, d_values


@triton.jit
def _without_own_forward(
    out, packed, share, rows, of_sequence, of_head, of_token, length, epsilon,
    HEADS: tl.constexpr, HEAD: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    token = tl.program_id(0).to(tl.int64)
    width: tl.constexpr = HEADS * HEAD
    head, column, inside, at = tile(HEADS, HEAD, ROWS, COLUMNS)
    from_out = out + (token // length) * of_sequence + (token % length) * of_token
    y = tl.load(from_out + head[:, None] * of_head + column[None, :], inside, 0.0).to(tl.float32)
    v = tl.load(packed + token * (3 * width) + 2 * width + at, inside, 0.0).to(tl.float32)
    s = 2 * tl.sigmoid(2 * tl.load(share + head, head < HEADS, 0.0).to(tl.float32)) - 1  # tanh
    along = tl.sum(y * v, 1) / (tl.sum(v * v, 1) + epsilon)
    tl.store(rows + token * width + at, (y - (s * along)[:, None] * v).to(rows.dtype.element_ty), inside)


@triton.jit
def _without_own_backward(
    d_rows, out, packed, share, rows, d_values, sums, of_sequence, of_head, of_token, length, count, epsilon,
    HEADS: tl.constexpr, HEAD: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Each program takes every n-th row, and writes its sum of the shares' gradients."""
    width: tl.constexpr = HEADS * HEAD
    head, column, inside, at = tile(HEADS, HEAD, ROWS, COLUMNS)
    s = (2 * tl.sigmoid(2 * tl.load(share + head, head < HEADS, 0.0).to(tl.float32)) - 1)[:, None]
    wide = tl.zeros([ROWS, COLUMNS], tl.int64)  # rows times width can exceed 32 bits
    total = tl.zeros([ROWS], tl.float32)
    for row in range(tl.program_id(0), count, tl.num_programs(0)):
        from_out = out + (wide + row // length) * of_sequence + (wide + row % length) * of_token
        here = (wide + row) * width + at
        y = tl.load(from_out + head[:, None] * of_head + column[None, :], inside, 0.0).to(tl.float32)
        v = tl.load(packed + (wide + row) * (3 * width) + 2 * width + at, inside, 0.0).to(tl.float32)
        g = tl.load(d_rows + here, inside, 0.0).to(tl.float32)
        size = tl.sum(v * v, 1)[:, None] + epsilon
        along = tl.sum(y * v, 1)[:, None] / size
        back = tl.sum(g * v, 1)[:, None] / size
        tl.store(rows + here, (y - s * along * v).to(rows.dtype.element_ty), inside)
        tl.store(d_rows + here, (g - s * back * v).to(rows.dtype.element_ty), inside)
        d_v = -s * (along * g + back * (y - 2 * along * v))
        tl.store(d_values + here, d_v.to(rows.dtype.element_ty), inside)
        total -= tl.sum(along * back * size, 1)
    tl.store(sums + tl.program_id(0) * HEADS + head, total * (1 - tl.sum(s * s, 1)), head < HEADS)
