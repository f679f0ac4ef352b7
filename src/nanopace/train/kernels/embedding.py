"""Embeds tokens and positions, with a norm if the recipe has one, and computes the gradients of both tables.

GPT-2 adds one row of each table. Recipe fast normalises that sum, and may have no position table.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn import functional

from nanopace.train.kernels.norm import RMS_EPSILON
from nanopace.train.kernels.rows import block_of, warps_of
from nanopace.train.kernels.segments import PIECE, SortedTokens, empty_pieces, join_pieces, piece_at


def plain_embed(tokens: Tensor, table: Tensor, positions: Tensor) -> Tensor:
    """The twin of `embed`."""
    return (table[tokens] + positions[: tokens.size(1)]).to(torch.bfloat16).flatten(0, 1)


def plain_embed_norm(tokens: Tensor, table: Tensor, positions: Tensor | None) -> Tensor:
    """The twin of `embed_norm`."""
    x = table[tokens].float() if positions is None else table[tokens].float() + positions[: tokens.size(1)].float()
    return functional.rms_norm(x, x.shape[-1:], eps=RMS_EPSILON).to(torch.bfloat16).flatten(0, 1)


def embed(tokens: Tensor, table: Tensor, positions: Tensor) -> Tensor:
    """The sum of both embeddings, one row per token, in bfloat16."""
    return _forward(tokens, table, positions, None)


def embed_norm(tokens: Tensor, table: Tensor, positions: Tensor | None) -> tuple[Tensor, Tensor]:
    """The same, each row scaled to a root mean square of 1, and the scale factors."""
    factors = torch.empty(tokens.numel(), device=tokens.device, dtype=torch.float32)
    return _forward(tokens, table, positions, factors), factors


def embed_backward(d_x: Tensor, tokens: Tensor, order: SortedTokens, d_table: Tensor, d_positions: Tensor) -> None:
    """Add to the gradients of both tables, in an order that depends on nothing but the tokens."""
    _backward(d_x, tokens, order, d_table, d_positions, None, None)


def embed_norm_backward(
    d_x: Tensor,
    x: Tensor,
    factors: Tensor,
    tokens: Tensor,
    order: SortedTokens,
    d_table: Tensor,
    d_positions: Tensor | None,
) -> None:
    """The same for `embed_norm`, given the `x` and `factors` it returned."""
    _backward(d_x, tokens, order, d_table, d_positions, x, factors)


def _forward(tokens: Tensor, table: Tensor, positions: Tensor | None, factors: Tensor | None) -> Tensor:
    batch, length = tokens.shape
    width = table.size(1)
    x = torch.empty((batch * length, width), device=tokens.device, dtype=torch.bfloat16)
    _embed_forward[(batch * length,)](
        tokens,
        table,
        positions,
        x,
        factors,
        tokens.stride(0),
        length,
        width,
        RMS_EPSILON,
        PLACED=positions is not None,
        NORMED=factors is not None,
        BLOCK=block_of(width),
        num_warps=warps_of(width),
    )
    return x


def _backward(
    d_x: Tensor,
    tokens: Tensor,
    order: SortedTokens,
    d_table: Tensor,
    d_positions: Tensor | None,
    x: Tensor | None,
    factors: Tensor | None,
) -> None:
    batch, length = tokens.shape
    width = d_x.size(1)
    options = {"NORMED": factors is not None, "BLOCK": block_of(width), "num_warps": warps_of(width)}
    pieces = empty_pieces(order, width)
    _embed_backward[(len(order),)](
        *order, d_x, x, factors, d_table, pieces, len(order), width, PIECE=PIECE, **options
    )  # fmt: skip
    join_pieces(order, pieces, d_table)
    if d_positions is not None:
        _embed_positions_backward[(length,)](d_x, x, factors, d_positions, batch, length, width, **options)


@triton.jit
def _embed_forward(
    tokens, table, positions, x, factors, stride, length, width, epsilon,
    PLACED: tl.constexpr, NORMED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < width
    token = tl.load(tokens + (row // length) * stride + row % length)
    value = tl.load(table + token * width + columns, inside, 0.0).to(tl.float32)
    if PLACED:
        value += tl.load(positions + (row % length) * width + columns, inside, 0.0).to(tl.float32)
    if NORMED:
        factor = 1 / tl.sqrt(tl.sum(value * value, 0) / width + epsilon)
        tl.store(factors + row, factor)
        value *= factor
    tl.store(x + row * width + columns, value.to(x.dtype.element_ty), inside)


@triton.jit
def _embed_backward(
    tokens, rows, d_x, x, factors, d_table, pieces, count, width,
    PIECE: tl.constexpr, NORMED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One program per sorted position; those where no piece begins have nothing to do."""
    position = tl.program_id(0)
    token, length, whole, slot = piece_at(position, tokens, count, PIECE)
    if length > 0:
        columns = tl.arange(0, BLOCK)
        inside = columns < width
        total = tl.zeros([BLOCK], tl.float32)
        for number in range(position, position + length):
            total += _gradient(d_x, x, factors, tl.load(rows + number), columns, width, NORMED)
        if whole:
            at = d_table + token * width + columns
            tl.store(at, tl.load(at, inside, 0.0) + total, inside)
        else:
            tl.store(pieces + slot * width + columns, total, inside)


@triton.jit
def _embed_positions_backward(
    d_x, x, factors, d_positions, batch, length, width, NORMED: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """One program per position, for all sequences."""
    position = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < width
    at = d_positions + position * width + columns
    total = tl.load(at, inside, 0.0)
    for sequence in range(batch):
        total += _gradient(d_x, x, factors, sequence * length + position, columns, width, NORMED)
    tl.store(at, total, inside)


@triton.jit
def _gradient(d_x, x, factors, row, columns, width, NORMED: tl.constexpr):
    """The gradient of one row before the norm, if there is one."""
    at = row * width + columns
    inside = columns < width
    grad = tl.load(d_x + at, inside, 0.0).to(tl.float32)
    if NORMED:
        value = tl.load(x + at, inside, 0.0).to(tl.float32)
        grad = (grad - value * (tl.sum(grad * value, 0) / width)) * tl.load(factors + row)
    return grad
