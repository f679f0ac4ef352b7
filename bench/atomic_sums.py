"""The embedding tables' gradients by atomic additions, as the trainer added them before: for deterministic.py only."""

# ruff: noqa: N803

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from nanopace.train.kernels.rows import block_of, programs, tile_of, warps_of
from nanopace.train.kernels.value_embeddings import tile


def atomic_embed_backward(d_x: Tensor, tokens: Tensor, d_table: Tensor, d_positions: Tensor) -> None:
    batch, length = tokens.shape
    width = d_x.size(1)
    _embed[(length,)](
        tokens, d_x, d_table, d_positions, tokens.stride(0), batch, length, width,
        BLOCK=block_of(width), num_warps=warps_of(width),
    )  # fmt: skip


def atomic_value_embeddings_backward(
    d_packed: Tensor, tokens: Tensor, table: Tensor, gate: Tensor, d_table: Tensor, d_gate: Tensor
) -> None:
    rows, width = len(d_packed), table.size(1)
    _values[(programs(d_packed.device, rows),)](
        d_packed, tokens, table, gate, d_table, d_gate, tokens.stride(0), tokens.size(1), rows,
        **tile_of(len(gate), width // len(gate)),
    )  # fmt: skip


@triton.jit
def _embed(tokens, d_x, d_table, d_positions, stride, batch, length, width, BLOCK: tl.constexpr):
    position = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < width
    at_position = d_positions + position * width + columns
    total = tl.load(at_position, inside, 0.0)
    for sequence in range(batch):
        token = tl.load(tokens + sequence * stride + position)
        grad = tl.load(d_x + (sequence * length + position) * width + columns, inside, 0.0).to(tl.float32)
        total += grad
        tl.atomic_add(d_table + token * width + columns, grad, inside)
    tl.store(at_position, total, inside)


@triton.jit
def _values(
    d_packed, tokens, table, gate, d_table, d_gate, stride, length, rows,
    HEADS: tl.constexpr, HEAD: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    width: tl.constexpr = HEADS * HEAD
    head, _, inside, at = tile(HEADS, HEAD, ROWS, COLUMNS)
    share = tl.load(gate + head, head < HEADS, 0.0)[:, None]
    wide = tl.zeros([ROWS, COLUMNS], tl.int64)
    total = tl.zeros([ROWS, COLUMNS], tl.float32)
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        token = tl.load(tokens + (row // length) * stride + row % length)
        grad = tl.load(d_packed + (wide + row) * (3 * width) + 2 * width + at, inside, 0.0).to(tl.float32)
        total += grad * tl.load(table + token * width + at, inside, 0.0)
        tl.atomic_add(d_table + token * width + at, grad * share, inside)
    tl.atomic_add(d_gate + head, tl.sum(total, 1), head < HEADS)
