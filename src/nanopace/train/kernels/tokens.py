"""Tokens and positions to vectors, and their gradients added to those of the tables."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from nanopace.train.kernels.rows import block_of, warps_of


def plain_embed(tokens: Tensor, table: Tensor, positions: Tensor) -> Tensor:
    """The twin of `embed`."""
    return (table[tokens] + positions[: tokens.size(1)]).to(torch.bfloat16).flatten(0, 1)


def embed(tokens: Tensor, table: Tensor, positions: Tensor) -> Tensor:
    """The sum of both, a row for each token, in bfloat16."""
    batch, length = tokens.shape
    width = table.size(1)
    x = torch.empty((batch * length, width), device=tokens.device, dtype=torch.bfloat16)
    _embed_forward[(batch * length,)](
        tokens, table, positions, x, tokens.stride(0), length, width, BLOCK=block_of(width), num_warps=warps_of(width)
    )
    return x


def embed_backward(d_x: Tensor, tokens: Tensor, d_table: Tensor, d_positions: Tensor) -> None:
    """Adds to the gradients of both tables. A token that occurs often is added to in no certain order."""
    batch, length = tokens.shape
    width = d_x.size(1)
    _embed_backward[(length,)](
        tokens,
        d_x,
        d_table,
        d_positions,
        tokens.stride(0),
        batch,
        length,
        width,
        BLOCK=block_of(width),
        num_warps=warps_of(width),
    )


@triton.jit
def _embed_forward(tokens, table, positions, x, stride, length, width, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < width
    token = tl.load(tokens + (row // length) * stride + row % length)
    value = tl.load(table + token * width + columns, inside).to(tl.float32)
    value += tl.load(positions + (row % length) * width + columns, inside).to(tl.float32)
    tl.store(x + row * width + columns, value.to(x.dtype.element_ty), inside)


@triton.jit
def _embed_backward(tokens, d_x, d_table, d_positions, stride, batch, length, width, BLOCK: tl.constexpr):
    """One position each, in every sequence."""
    position = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < width
    at_position = d_positions + position * width + columns
    total = tl.load(at_position, inside, 0.0)
    for sequence in range(batch):
        token = tl.load(tokens + sequence * stride + position)
        slope = tl.load(d_x + (sequence * length + position) * width + columns, inside, 0.0).to(tl.float32)
        total += slope
        tl.atomic_add(d_table + token * width + columns, slope, inside)
    tl.store(at_position, total, inside)
