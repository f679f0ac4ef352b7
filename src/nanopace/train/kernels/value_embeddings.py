"""Value embeddings: each token adds its row of a table to its values, scaled by a gate per head.

The sum overwrites the values. Tables are looked up in float32, the only precision they are kept in.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from nanopace.train.kernels.rows import block_of, tile_of, warps_of
from nanopace.train.kernels.segments import PIECE, SortedTokens, empty_pieces, join_pieces, piece_at


def plain_add_value_embeddings(packed: Tensor, tokens: Tensor, table: Tensor, gate: Tensor) -> Tensor:
    """The twin of `add_value_embeddings`; it returns a new matrix."""
    width = table.size(1)
    added = (gate[:, None] * table[tokens].view(*tokens.shape, len(gate), -1)).view(-1, width)
    out = packed.clone()
    out[:, 2 * width :] = (packed[:, 2 * width :].float() + added).to(packed.dtype)
    return out


def add_value_embeddings(packed: Tensor, tokens: Tensor, table: Tensor, gate: Tensor) -> None:
    """Add to the values in rows of [queries, keys, values]."""
    rows, width = len(packed), table.size(1)
    _add_value_embeddings_forward[(rows,)](
        packed,
        tokens,
        table,
        gate,
        tokens.stride(0),
        tokens.size(1),
        width,
        HEAD=width // len(gate),
        BLOCK=block_of(width),
        num_warps=warps_of(width),
    )


def add_value_embeddings_backward(
    d_packed: Tensor, order: SortedTokens, table: Tensor, gate: Tensor, d_table: Tensor, d_gate: Tensor
) -> None:
    """Add to the gradients of table and gate, in an order that depends on nothing but the tokens; the gradient of the
    rows is unchanged."""
    width, heads = table.size(1), len(gate)
    pieces = empty_pieces(order, width)
    gates = torch.empty((len(order), heads), device=d_packed.device, dtype=torch.float32)
    _add_value_embeddings_backward[(len(order),)](
        *order, d_packed, table, gate, d_table, pieces, gates, len(order),
        PIECE=PIECE, **tile_of(heads, width // heads),
    )  # fmt: skip
    join_pieces(order, pieces, d_table)
    d_gate.add_(gates.sum(0))


@triton.jit
def tile(HEADS: tl.constexpr, HEAD: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """The numbers of heads and columns, which pairs of them exist, and where each is in a token's row."""
    head = tl.arange(0, ROWS)
    column = tl.arange(0, COLUMNS)
    inside = (head[:, None] < HEADS) & (column[None, :] < HEAD)
    return head, column, inside, head[:, None] * HEAD + column[None, :]


@triton.jit
def _add_value_embeddings_forward(
    packed, tokens, table, gate, stride, length, width, HEAD: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < width
    token = tl.load(tokens + (row // length) * stride + row % length)
    at = packed + row * (3 * width) + 2 * width + columns
    share = tl.load(gate + columns // HEAD, inside, 0.0)
    value = tl.load(at, inside, 0.0).to(tl.float32) + share * tl.load(table + token * width + columns, inside, 0.0)
    tl.store(at, value.to(packed.dtype.element_ty), inside)


@triton.jit
def _add_value_embeddings_backward(
    tokens, rows, d_packed, table, gate, d_table, pieces, gates, count,
    PIECE: tl.constexpr, HEADS: tl.constexpr, HEAD: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """One program per sorted position. Where no piece begins, it only writes zeros for the gates."""
    width: tl.constexpr = HEADS * HEAD
    position = tl.program_id(0)
    token, length, whole, slot = piece_at(position, tokens, count, PIECE)
    head, _, inside, at = tile(HEADS, HEAD, ROWS, COLUMNS)
    gates += position.to(tl.int64) * HEADS + head
    if length > 0:
        total = tl.zeros([ROWS, COLUMNS], tl.float32)
        for number in range(position, position + length):
            row = tl.load(rows + number)
            total += tl.load(d_packed + row * (3 * width) + 2 * width + at, inside, 0.0).to(tl.float32)
        own = tl.sum(total * tl.load(table + token * width + at, inside, 0.0), 1)
        tl.store(gates, own, head < HEADS)
        total *= tl.load(gate + head, head < HEADS, 0.0)[:, None]
        if whole:
            into = d_table + token * width + at
            tl.store(into, tl.load(into, inside, 0.0) + total, inside)
        else:
            tl.store(pieces + slot * width + at, total, inside)
    else:
        tl.store(gates, tl.zeros([ROWS], tl.float32), head < HEADS)
