"""The backward pass of causal attention, with the same bits every time.

Each program owns what it writes: one kernel a block of queries' gradients, the other a block of keys' and values'. So
nothing is added to by several programs, in whatever order they come, as in the kernels that torch has. The price is
that both compute the probabilities, seven products instead of five; on a Hopper card it takes no longer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

_LOG2_E = tl.constexpr(1.4426950408889634)


class Tile(NamedTuple):
    """Rows that a program owns, rows it goes through at a time, its warps, and stages of the pipeline."""

    own: int
    others: int
    warps: int
    stages: int

    def options(self, length: int) -> dict[str, int]:
        even = length % max(self.own, self.others) == 0
        return {"OWN": self.own, "OTHERS": self.others, "STAGES": self.stages, "EVEN": even, "num_warps": self.warps}


# By width of a head, for queries and for keys: the fastest that we tried on an H200.
TILES = {
    64: (Tile(64, 32, 4, 4), Tile(64, 32, 4, 4)),
    128: (Tile(64, 32, 4, 3), Tile(64, 32, 4, 4)),
}


def plain_attention_backward(q_k_v: Sequence[Tensor], d_out: Tensor, scale: float) -> tuple[Tensor, ...]:
    """The twin of `attention_backward`."""
    q, k, v = (each.detach().requires_grad_() for each in q_k_v)
    later = torch.ones((q.size(2), q.size(2)), dtype=torch.bool, device=q.device).triu(1)
    with torch.enable_grad():
        out = (q @ k.mT * scale).masked_fill(later, float("-inf")).softmax(-1) @ v
    out.backward(d_out)
    return tuple(each.grad for each in (q, k, v) if each.grad is not None)


def attention_backward(
    d_out: Tensor, q_k_v: Sequence[Tensor], out: Tensor, sums: Tensor, scale: float
) -> tuple[Tensor, ...]:
    """The gradients of queries, keys and values (batch, heads, length, head), from attention's output and the
    logarithms of the softmax's sums (batch, heads, length). RuntimeError if it does not take the shape."""
    q, k, v = q_k_v
    batch, heads, length, head = q.shape
    if head not in TILES or q.stride() != v.stride() or not q.stride(3) == k.stride(3) == 1:
        raise RuntimeError("no kernel for this shape")
    d_out, out = (each if each.stride(3) == 1 else each.contiguous() for each in (d_out, out))
    sums = sums.reshape(batch, heads, length)
    d_q, d_k, d_v = (torch.empty_like(out) for _ in range(3))
    dots = torch.empty_like(sums)
    strides = [stride for each in (q, k, out, d_out) for stride in each.stride()[:3]]
    queries, keys = TILES[head]
    _attention_backward_queries[(triton.cdiv(length, queries.own) * batch * heads,)](
        q, k, v, d_out, sums, out, dots, d_q, *strides, heads, length, scale, HEAD=head, **queries.options(length)
    )
    _attention_backward_keys[(triton.cdiv(length, keys.own) * batch * heads,)](
        q, k, v, d_out, sums, dots, d_k, d_v, *strides, heads, length, scale, HEAD=head, **keys.options(length)
    )
    return d_q, d_k, d_v


@triton.jit
def _rows(at, row, of_row, length, HEAD: tl.constexpr, EVEN: tl.constexpr):
    """These rows of a head; zeros behind the last one."""
    at += row[:, None] * of_row + tl.arange(0, HEAD)[None, :]
    if EVEN:
        return tl.load(at)
    return tl.load(at, (row < length)[:, None], 0.0)


@triton.jit
def _numbers(at, row, length, EVEN: tl.constexpr):
    """One per row."""
    if EVEN:
        return tl.load(at + row)
    return tl.load(at + row, row < length, 0.0)


@triton.jit
def _store_rows(at, rows, row, of_row, length, HEAD: tl.constexpr):
    at += row[:, None] * of_row + tl.arange(0, HEAD)[None, :]
    tl.store(at, rows.to(at.dtype.element_ty), (row < length)[:, None])


@triton.jit
def _attention_backward_queries(
    q, k, v, d_out, sums, out, dots, d_q,
    in_sequence, in_head, in_token, k_sequence, k_head, k_token,
    out_sequence, out_head, out_token, d_sequence, d_head, d_token,
    heads, length, scale,
    HEAD: tl.constexpr, OWN: tl.constexpr, OTHERS: tl.constexpr, STAGES: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    """Also stores each query's dot product of output and gradient."""
    blocks = tl.cdiv(length, OWN)
    first = (blocks - 1 - tl.program_id(0) % blocks) * OWN  # the longest ones first
    number = tl.program_id(0).to(tl.int64) // blocks
    sequence, head = number // heads, number % heads
    inside, at_k = sequence * in_sequence + head * in_head, sequence * k_sequence + head * k_head
    at_out = sequence * out_sequence + head * out_head
    row = first + tl.arange(0, OWN)
    queries = _rows(q + inside, row, in_token, length, HEAD, EVEN)
    d_rows = _rows(d_out + sequence * d_sequence + head * d_head, row, d_token, length, HEAD, EVEN)
    rows = _rows(out + at_out, row, out_token, length, HEAD, EVEN)
    dot = tl.sum(rows.to(tl.float32) * d_rows.to(tl.float32), 1)
    tl.store(dots + number * length + row, dot, row < length)
    log_sum = _numbers(sums + number * length, row, length, EVEN) * _LOG2_E
    found, diagonal = tl.zeros((OWN, HEAD), tl.float32), first // OTHERS * OTHERS
    for part in tl.static_range(2):  # keys that all of these queries see, then those that some of them see
        begin = diagonal if part else 0
        end = tl.minimum(first + OWN, length) if part else diagonal
        for other in tl.range(begin, end, OTHERS, num_stages=STAGES):
            column = other + tl.arange(0, OTHERS)
            keys = _rows(k + at_k, column, k_token, length, HEAD, EVEN)
            values = _rows(v + inside, column, in_token, length, HEAD, EVEN)
            probability = tl.exp2(tl.dot(queries, tl.trans(keys)) * (scale * _LOG2_E) - log_sum[:, None])
            if part:
                probability = tl.where(row[:, None] >= column[None, :], probability, 0.0)
            slope = probability * (tl.dot(d_rows, tl.trans(values)) - dot[:, None])
            found = tl.dot(slope.to(keys.dtype), keys, found)
    _store_rows(d_q + at_out, found * scale, row, out_token, length, HEAD)


@triton.jit
def _attention_backward_keys(
    q, k, v, d_out, sums, dots, d_k, d_v,
    in_sequence, in_head, in_token, k_sequence, k_head, k_token,
    out_sequence, out_head, out_token, d_sequence, d_head, d_token,
    heads, length, scale,
    HEAD: tl.constexpr, OWN: tl.constexpr, OTHERS: tl.constexpr, STAGES: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    """Everything is transposed: one row per key, one column per query."""
    blocks = tl.cdiv(length, OWN)
    first = tl.program_id(0) % blocks * OWN
    number = tl.program_id(0).to(tl.int64) // blocks
    sequence, head = number // heads, number % heads
    inside, at_k = sequence * in_sequence + head * in_head, sequence * k_sequence + head * k_head
    at_d_out = sequence * d_sequence + head * d_head
    at_sums = number * length
    row = first + tl.arange(0, OWN)
    keys = _rows(k + at_k, row, k_token, length, HEAD, EVEN)
    values = _rows(v + inside, row, in_token, length, HEAD, EVEN)
    of_keys, of_values = tl.zeros((OWN, HEAD), tl.float32), tl.zeros((OWN, HEAD), tl.float32)
    behind = tl.cdiv(first + OWN, OTHERS) * OTHERS
    for part in tl.static_range(2):  # queries that see some of these keys, then those that see all of them
        begin = behind if part else first // OTHERS * OTHERS
        end = length if part else tl.minimum(behind, length)
        for other in tl.range(begin, end, OTHERS, num_stages=STAGES):
            column = other + tl.arange(0, OTHERS)
            queries = _rows(q + inside, column, in_token, length, HEAD, EVEN)
            d_rows = _rows(d_out + at_d_out, column, d_token, length, HEAD, EVEN)
            log_sum = _numbers(sums + at_sums, column, length, EVEN)
            dot = _numbers(dots + at_sums, column, length, EVEN)
            probability = tl.exp2(tl.dot(keys, tl.trans(queries)) * (scale * _LOG2_E) - (log_sum * _LOG2_E)[None, :])
            if part == 0:
                probability = tl.where(column[None, :] >= row[:, None], probability, 0.0)
            of_values = tl.dot(probability.to(d_rows.dtype), d_rows, of_values)
            slope = probability * (tl.dot(values, tl.trans(d_rows)) - dot[None, :])
            of_keys = tl.dot(slope.to(queries.dtype), queries, of_keys)
    at_out = sequence * out_sequence + head * out_head
    _store_rows(d_k + at_out, of_keys * scale, row, out_token, length, HEAD)
    _store_rows(d_v + at_out, of_values, row, out_token, length, HEAD)
