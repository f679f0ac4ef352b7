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


def embed_backward(d_x: Tensor, tokens: Tensor, d_table: Tensor, d_positions: Tensor) -> None:
    """Add to the gradients of both tables. Additions for a repeated token happen in no fixed order."""
    _backward(d_x, tokens, d_table, d_positions, None, None)


def embed_norm_backward(
    d_x: Tensor, x: Tensor, factors: Tensor, tokens: Tensor, d_table: Tensor, d_positions: Tensor | None
) -> None:
    """The same for `embed_norm`, given the `x` and `factors` it returned."""
    _backward(d_x, tokens, d_table, d_positions, x, factors)


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
    d_x: Tensor, tokens: Tensor, d_table: Tensor, d_positions: Tensor | None, x: Tensor | None, factors: Tensor | None
) -> None:
    batch, length = tokens.shape
    width = d_x.size(1)
    _embed_backward[(length,)](
        tokens,
        d_x,
        x,
        factors,
        d_table,
        d_positions,
        tokens.stride(0),
        batch,
        length,
        width,
        PLACED=d_positions is not None,
        NORMED=factors is not None,
        BLOCK=block_of(width),
        num_warps=warps_of(width),
    )


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
    tokens, d_x, x, factors, d_table, d_positions, stride, batch, length, width,
    PLACED: tl.constexpr, NORMED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One program per position, for all sequences."""
    position = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < width
    total = tl.zeros([BLOCK], tl.float32)
    if PLACED:
        at_position = d_positions + position * width + columns
        total = tl.load(at_position, inside, 0.0)
    for sequence in range(batch):
        row = sequence * length + position
        at = row * width + columns
        token = tl.load(tokens + sequence * stride + position)
        grad = tl.load(d_x + at, inside, 0.0).to(tl.float32)
        if NORMED:
            value = tl.load(x + at, inside, 0.0).to(tl.float32)
            grad = (grad - value * (tl.sum(grad * value, 0) / width)) * tl.load(factors + row)
        total += grad
        tl.atomic_add(d_table + token * width + columns, grad, inside)
    if PLACED:
        tl.store(at_position, total, inside)
