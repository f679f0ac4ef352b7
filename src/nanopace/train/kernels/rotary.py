"""QK norm and rotary position embedding in place, one pass forward and one backward, and keys from the previous token.

A norm and a rotation can both be undone, so only the norm's factors are saved: the backward pass recovers the rest from
what the forward pass left in place. A rotation preserves lengths and angles, so the norm's backward pass can come
first, on rotated values.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from nanopace.train.kernels.rows import block_of, warps_of
from nanopace.train.models.fast import queries_and_keys, rotating

EPSILON = 1e-6

Angles = tuple[Tensor, Tensor]  # cosine and sine, each (length, half a head)


def plain_qk_norm_rope(packed: Tensor, batch: int, heads: int, angles: Angles | None, *, normed: bool) -> Tensor:
    """The twin of `qk_norm_rope`; it returns a new matrix."""
    rows, width = packed.shape
    parts = packed.view(batch, rows // batch, 3, heads, width // (3 * heads))
    both = queries_and_keys(parts.float(), angles, normed=normed).to(packed.dtype)
    return torch.cat((both, parts[:, :, 2:]), dim=2).view(rows, width)


def qk_norm_rope(packed: Tensor, batch: int, heads: int, angles: Angles | None, *, normed: bool) -> Tensor:
    """Overwrite queries and keys in rows of [queries, keys, values], and return the factors of their norms."""
    rows, width = packed.shape
    factors = torch.empty((rows, 2 * heads) if normed else 0, device=packed.device, dtype=torch.float32)
    if not normed and angles is None:
        return factors
    head = width // (3 * heads)
    _qk_norm_rope_forward[(rows,)](
        packed,
        factors,
        *(angles or (None, None)),
        rows // batch,
        EPSILON,
        NORMED=normed,
        ROTATED=angles is not None,
        HEADS=2 * heads,
        HEAD=head,
        ROWS=block_of(2 * heads),
        COLUMNS=block_of(head // 2),
        num_warps=warps_of(width // 3),
    )
    return factors


def shifted_keys(packed: Tensor, batch: int, heads: int) -> Tensor:
    """The keys in rows of [queries, keys, values] after `shift_keys` (models/fast.py), its twin; a new tensor of
    (batch, length, heads, head)."""
    rows, width = packed.shape
    head = width // (3 * heads)
    keys = torch.empty((batch, rows // batch, heads, head), device=packed.device, dtype=packed.dtype)
    _shift_keys_forward[(rows,)](
        packed,
        keys,
        rows // batch,
        heads * head,
        ROTATING=rotating(head),
        HALF=head // 2,
        BLOCK=block_of(heads * head),
        num_warps=warps_of(heads * head),
    )
    return keys


def qk_norm_rope_backward(
    d_q_k_v: Sequence[Tensor],
    packed: Tensor,
    factors: Tensor,
    angles: Angles | None,
    *,
    shifted: bool = False,
    d_values: Tensor | None = None,
    d8: Tensor | None = None,
    scale: Tensor | None = None,
) -> None:
    """Turn the gradients of queries, keys and values, each (batch, heads, length, head), into that of the packed rows,
    which overwrites what `qk_norm_rope` left there. `shifted`: the keys are those of `shifted_keys`. `d_values`, one
    row per token, is added to the values' gradient. `d8` receives the result divided by `scale`, in 8 bits."""
    batch, heads, length, head = d_q_k_v[0].shape
    d_q, d_k, d_v = (each if each.stride(3) == 1 else each.contiguous() for each in d_q_k_v)
    _qk_norm_rope_backward[(batch * length,)](
        packed,
        factors,
        *(angles or (None, None)),
        d_q,
        d_k,
        d_v,
        d_values,
        d8,
        scale,
        *(stride for each in (d_q, d_k, d_v) for stride in each.stride()[:3]),
        length,
        NORMED=factors.numel() > 0,
        ROTATED=angles is not None,
        SHIFTED=shifted,
        ADDED=d_values is not None,
        FP8=d8 is not None,
        HEADS=heads,
        HEAD=head,
        ROTATING=rotating(head),
        ROWS=block_of(heads),
        COLUMNS=block_of(head // 2),
        num_warps=max(1, warps_of(heads * head) // 2),
    )


@triton.jit
def _qk_norm_rope_forward(
    packed, factors, cosine, sine, length, epsilon,
    NORMED: tl.constexpr, ROTATED: tl.constexpr, HEADS: tl.constexpr, HEAD: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """One program per token; HEADS counts queries' and keys' heads together."""
    token = tl.program_id(0).to(tl.int64)
    half: tl.constexpr = HEAD // 2
    head = tl.arange(0, ROWS)
    column = tl.arange(0, COLUMNS)
    inside = (head[:, None] < HEADS) & (column[None, :] < half)
    first = packed + token * (HEADS * HEAD // 2 * 3) + head[:, None] * HEAD + column[None, :]
    a = tl.load(first, inside, 0.0).to(tl.float32)
    b = tl.load(first + half, inside, 0.0).to(tl.float32)
    if NORMED:
        factor = 1 / tl.sqrt(tl.sum(a * a + b * b, 1) / HEAD + epsilon)
        tl.store(factors + token * HEADS + head, factor, head < HEADS)
        a *= factor[:, None]
        b *= factor[:, None]
    if ROTATED:
        at = (token % length) * half + column
        c = tl.load(cosine + at, column < half, 0.0)[None, :]
        s = tl.load(sine + at, column < half, 0.0)[None, :]
        a, b = a * c - b * s, b * c + a * s
    tl.debug_barrier()  # all is read before anything is overwritten
    tl.store(first, a.to(packed.dtype.element_ty), inside)
    tl.store(first + half, b.to(packed.dtype.element_ty), inside)


@triton.jit
def _shift_keys_forward(
    packed, keys, length, width, ROTATING: tl.constexpr, HALF: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    token = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < width
    still = columns % HALF >= ROTATING
    source = tl.where(still & (token % length > 0), token - 1, token)
    key = tl.load(packed + source * (3 * width) + width + columns, inside, 0.0)
    tl.store(keys + token * width + columns, key, inside)


@triton.jit
def _qk_norm_rope_backward(
    packed, factors, cosine, sine, d_q, d_k, d_v, d_values, d8, scale, q_batch, q_head, q_length, k_batch, k_head,
    k_length, v_batch, v_head, v_length, length,
    NORMED: tl.constexpr, ROTATED: tl.constexpr, SHIFTED: tl.constexpr, ADDED: tl.constexpr, FP8: tl.constexpr,
    HEADS: tl.constexpr, HEAD: tl.constexpr, ROTATING: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """One program per token."""
    token = tl.program_id(0).to(tl.int64)
    sequence = token // length
    position = token % length
    half: tl.constexpr = HEAD // 2
    head = tl.arange(0, ROWS)
    column = tl.arange(0, COLUMNS)
    inside = (head[:, None] < HEADS) & (column[None, :] < half)
    c = 1.0
    s = 0.0
    if ROTATED:
        c = tl.load(cosine + position * half + column, column < half, 0.0)[None, :]
        s = tl.load(sine + position * half + column, column < half, 0.0)[None, :]
    at = token * (HEADS * HEAD * 3) + head[:, None] * HEAD + column[None, :]
    at_q = packed + at
    at_k = at_q + HEADS * HEAD
    at_v = at_k + HEADS * HEAD
    q_from = d_q + sequence * q_batch + position * q_length + head[:, None] * q_head + column[None, :]
    k_from = d_k + sequence * k_batch + position * k_length + head[:, None] * k_head + column[None, :]
    v_from = d_v + sequence * v_batch + position * v_length + head[:, None] * v_head + column[None, :]
    q_factor = 1.0
    k_factor = 1.0
    if NORMED:
        q_factor = tl.load(factors + token * (2 * HEADS) + head, head < HEADS, 0.0)[:, None]
        k_factor = tl.load(factors + token * (2 * HEADS) + HEADS + head, head < HEADS, 0.0)[:, None]
    q_a = tl.load(q_from, inside, 0.0).to(tl.float32)
    q_b = tl.load(q_from + half, inside, 0.0).to(tl.float32)
    q_a, q_b = _qk_backward(q_a, q_b, at_q, q_factor, inside, c, s, NORMED, ROTATED, HEAD)
    if SHIFTED:  # what does not rotate was the next token's, and the first token's also its own
        own = inside & ((position == 0) | (column[None, :] < ROTATING))
        after = inside & (position + 1 < length) & (column[None, :] >= ROTATING)
        k_a = tl.load(k_from, own, 0.0).to(tl.float32) + tl.load(k_from + k_length, after, 0.0)
        k_b = tl.load(k_from + half, own, 0.0).to(tl.float32) + tl.load(k_from + half + k_length, after, 0.0)
    else:
        k_a = tl.load(k_from, inside, 0.0).to(tl.float32)
        k_b = tl.load(k_from + half, inside, 0.0).to(tl.float32)
    k_a, k_b = _qk_backward(k_a, k_b, at_k, k_factor, inside, c, s, NORMED, ROTATED, HEAD)
    v_a = tl.load(v_from, inside, 0.0)
    v_b = tl.load(v_from + half, inside, 0.0)
    if ADDED:
        more = d_values + token * (HEADS * HEAD) + head[:, None] * HEAD + column[None, :]
        v_a = v_a.to(tl.float32) + tl.load(more, inside, 0.0)
        v_b = v_b.to(tl.float32) + tl.load(more + half, inside, 0.0)
    tl.debug_barrier()  # all is read before anything is overwritten
    tl.store(at_q, q_a.to(packed.dtype.element_ty), inside)
    tl.store(at_q + half, q_b.to(packed.dtype.element_ty), inside)
    tl.store(at_k, k_a.to(packed.dtype.element_ty), inside)
    tl.store(at_k + half, k_b.to(packed.dtype.element_ty), inside)
    tl.store(at_v, v_a.to(packed.dtype.element_ty), inside)
    tl.store(at_v + half, v_b.to(packed.dtype.element_ty), inside)
    if FP8:
        factor = 1 / tl.load(scale)
        _store_fp8(d8 + at, q_a, q_b, factor, inside, half)
        _store_fp8(d8 + at + HEADS * HEAD, k_a, k_b, factor, inside, half)
        _store_fp8(d8 + at + 2 * HEADS * HEAD, v_a.to(tl.float32), v_b.to(tl.float32), factor, inside, half)


@triton.jit
def _store_fp8(here, a, b, factor, inside, half: tl.constexpr):
    tl.store(here, (a * factor).to(here.dtype.element_ty), inside)
    tl.store(here + half, (b * factor).to(here.dtype.element_ty), inside)


@triton.jit
def _qk_backward(
    a, b, rotated, factor, inside, c, s, NORMED: tl.constexpr, ROTATED: tl.constexpr, HEAD: tl.constexpr
):  # fmt: skip
    """The gradient of a token's queries or keys before norm and rotation, from that after: the first halves (a), and
    the second (b)."""
    if NORMED:
        x = tl.load(rotated, inside, 0.0).to(tl.float32)
        y = tl.load(rotated + HEAD // 2, inside, 0.0).to(tl.float32)
        along = (tl.sum(a * x + b * y, 1) / HEAD)[:, None]
        a = (a - x * along) * factor
        b = (b - y * along) * factor
    if ROTATED:
        a, b = a * c + b * s, b * c - a * s
    return a, b
