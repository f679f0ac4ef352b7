"""Value embeddings: each token adds its row of a table to its values, scaled by a gate per head.

The sum overwrites the values. Tables are looked up in float32, the only precision they are kept in.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from nanopace.train.kernels.rows import block_of, programs, tile_of, warps_of


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
    d_packed: Tensor, tokens: Tensor, table: Tensor, gate: Tensor, d_table: Tensor, d_gate: Tensor
) -> None:
    """Add to the gradients of table and gate; the gradient of the rows is unchanged."""
    rows, width = len(d_packed), table.size(1)
    _add_value_embeddings_backward[(programs(d_packed.device, rows),)](
        d_packed,
        tokens,
        table,
        gate,
        d_table,
        d_gate,
        tokens.stride(0),
        tokens.size(1),
        rows,
        **tile_of(len(gate), width // len(gate)),
    )


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
    d_packed, tokens, table, gate, d_table, d_gate, stride, length, rows,
    HEADS: tl.constexpr, HEAD: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Each program takes every n-th row, so that it can sum the gates' gradients before writing them."""
    width: tl.constexpr = HEADS * HEAD
    head, _, inside, at = tile(HEADS, HEAD, ROWS, COLUMNS)
    share = tl.load(gate + head, head < HEADS, 0.0)[:, None]
    wide = tl.zeros([ROWS, COLUMNS], tl.int64)  # rows times width can exceed 32 bits
    total = tl.zeros([ROWS, COLUMNS], tl.float32)
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        token = tl.load(tokens + (row // length) * stride + row % length)
        grad = tl.load(d_packed + (wide + row) * (3 * width) + 2 * width + at, inside, 0.0).to(tl.float32)
        total += grad * tl.load(table + token * width + at, inside, 0.0)
        tl.atomic_add(d_table + token * width + at, grad * share, inside)
    tl.atomic_add(d_gate + head, tl.sum(total, 1), head < HEADS)
