"""Tokens to normed vectors, with which a stream begins, and their gradients added to those of the tables."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn import functional

from nanopace.train.kernels.norm import RMS_EPSILON
from nanopace.train.kernels.rows import block_of, warps_of


def plain_begin(tokens: Tensor, table: Tensor, positions: Tensor | None) -> Tensor:
    """The twin of `begin`."""
    x = table[tokens].float() if positions is None else table[tokens].float() + positions[: tokens.size(1)].float()
    return functional.rms_norm(x, x.shape[-1:], eps=RMS_EPSILON).to(torch.bfloat16).flatten(0, 1)


def begin(tokens: Tensor, table: Tensor, positions: Tensor | None) -> tuple[Tensor, Tensor]:
    """A row for each token, in bfloat16, and the factors of the norm."""
    batch, length = tokens.shape
    width = table.size(1)
    x = torch.empty((batch * length, width), device=tokens.device, dtype=torch.bfloat16)
    factors = torch.empty(batch * length, device=tokens.device, dtype=torch.float32)
    _begin_forward[(batch * length,)](
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
        BLOCK=block_of(width),
        num_warps=warps_of(width),
    )
    return x, factors


def begin_backward(
    d_x: Tensor, x: Tensor, factors: Tensor, tokens: Tensor, d_table: Tensor, d_positions: Tensor | None
) -> None:
    """Adds to the gradients of the tables."""
    batch, length = tokens.shape
    width = x.size(1)
    _begin_backward[(length,)](
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
        BLOCK=block_of(width),
        num_warps=warps_of(width),
    )


@triton.jit
def _begin_forward(
    tokens, table, positions, x, factors, stride, length, width, epsilon, PLACED: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < width
    token = tl.load(tokens + (row // length) * stride + row % length)
    value = tl.load(table + token * width + columns, inside, 0.0).to(tl.float32)
    if PLACED:
        value += tl.load(positions + (row % length) * width + columns, inside, 0.0).to(tl.float32)
    factor = 1 / tl.sqrt(tl.sum(value * value, 0) / width + epsilon)
    tl.store(factors + row, factor)
    tl.store(x + row * width + columns, (value * factor).to(x.dtype.element_ty), inside)


@triton.jit
def _begin_backward(
    tokens, d_x, x, factors, d_table, d_positions, stride, batch, length, width,
    PLACED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One position each, in every sequence."""
    position = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < width
    total = tl.zeros([BLOCK], tl.float32)
    for sequence in range(batch):
        row = sequence * length + position
        at = row * width + columns
        token = tl.load(tokens + sequence * stride + position)
        slope = tl.load(d_x + at, inside, 0.0).to(tl.float32)
        value = tl.load(x + at, inside, 0.0).to(tl.float32)
        slope = (slope - value * (tl.sum(slope * value, 0) / width)) * tl.load(factors + row)
        total += slope
        tl.atomic_add(d_table + token * width + columns, slope, inside)
    if PLACED:
        at_position = d_positions + position * width + columns
        tl.store(at_position, tl.load(at_position, inside, 0.0) + total, inside)
