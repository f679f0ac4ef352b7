"""The root mean square norm, with the embedding mixed into the stream before it: one pass, and one more back.

x = keep x + again start, where `keep` and `again` are a number each and learned. The stream is overwritten: the
backward pass needs what the norm gave, the norm's factors, and `start`. The gradient of `keep` asks for x as it was,
which is what the mixing made of it, less `again` start, over `keep`: exact enough unless `keep` is next to 0.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn import functional

from nanopace.train.kernels.rows import block_of, programs, stages_of, warps_of

EPSILON = 1e-6
_LEAST = 1e-3  # what is divided by `keep` is divided by nothing nearer to 0


class Mixing(NamedTuple):
    """What comes to the stream at the beginning of one layer."""

    start: Tensor  # the stream at the beginning of all
    keep: Tensor  # one number, in float32, and so is the next
    again: Tensor
    d_keep: Tensor  # added to, and so is the next
    d_again: Tensor


def plain_norm(x: Tensor) -> Tensor:
    """The twin of `norm`."""
    return functional.rms_norm(x.float(), x.shape[-1:], eps=EPSILON).to(x.dtype)


def plain_mix_norm(x: Tensor, start: Tensor, keep: Tensor, again: Tensor) -> tuple[Tensor, Tensor]:
    """The stream and its norm. The twin of `mix_norm`, which gives a new stream instead."""
    x = (keep * x.float() + again * start.float()).to(x.dtype)
    return x, plain_norm(x)


def norm(x: Tensor) -> tuple[Tensor, Tensor]:
    """Each row with a root mean square of 1; and the factors that made it so."""
    return _normed(x, None, x)


def mix_norm(x: Tensor, mixing: Mixing, into: Tensor) -> tuple[Tensor, Tensor]:
    """The norm of the mixed stream, and its factors. That stream goes into `into`, which may be x."""
    return _normed(x, mixing, into)


def norm_backward(d_y: Tensor, y: Tensor, factors: Tensor, past: Tensor | None) -> Tensor:
    """d_x, added to `past` in place where that is given."""
    d_x = torch.empty_like(y) if past is None else past
    _run_backward(d_y, y, factors, d_x, past is not None, None, None, first=True)
    return d_x


def mix_norm_backward(
    d_y: Tensor, y: Tensor, factors: Tensor, d_x: Tensor, mixing: Mixing, d_start: Tensor | None
) -> Tensor:
    """What came to the mixed stream, d_x, becomes what goes to the one before; and d_start, added to in place."""
    begun = torch.empty_like(y) if d_start is None else d_start
    _run_backward(d_y, y, factors, d_x, True, mixing, begun, first=d_start is None)
    return begun


def _normed(x: Tensor, mixing: Mixing | None, into: Tensor) -> tuple[Tensor, Tensor]:
    rows, width = x.shape
    y, factors = torch.empty_like(x), torch.empty(rows, device=x.device, dtype=torch.float32)
    _forward[(rows,)](
        x,
        *(mixing[:3] if mixing else (None, None, None)),
        into,
        y,
        factors,
        width,
        EPSILON,
        MIX=mixing is not None,
        BLOCK=block_of(width),
        num_warps=warps_of(width),
    )
    return y, factors


def _run_backward(
    d_y: Tensor,
    y: Tensor,
    factors: Tensor,
    d_x: Tensor,
    add: bool,
    mixing: Mixing | None,
    d_start: Tensor | None,
    *,
    first: bool,
) -> None:
    rows, width = y.shape
    read = (d_y, y, d_x if add else None, mixing and mixing.start, None if first else d_start)
    _backward[(programs(y.device, rows),)](
        d_y,
        y,
        factors,
        d_x,
        *(mixing or (None,) * 5),
        d_start,
        rows,
        width,
        _LEAST,
        ADD=add,
        MIX=mixing is not None,
        FIRST=first,
        BLOCK=block_of(width),
        STAGES=stages_of(width, *read),
        num_warps=max(1, warps_of(width) // 2),
    )


# The numbers of all layers lie one after the other, and no code has to be compiled anew for where one of them lies.
@triton.jit(do_not_specialize_on_alignment=["keep", "again"])
def _forward(
    x, start, keep, again, into, y, factors, width, epsilon, MIX: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < width
    at = row * width + columns
    value = tl.load(x + at, inside, 0.0).to(tl.float32)
    if MIX:
        value = tl.load(keep) * value + tl.load(again) * tl.load(start + at, inside, 0.0).to(tl.float32)
        rounded = value.to(into.dtype.element_ty)
        tl.store(into + at, rounded, inside)
        value = rounded.to(tl.float32)
    factor = 1 / tl.sqrt(tl.sum(value * value, 0) / width + epsilon)
    tl.store(factors + row, factor)
    tl.store(y + at, (value * factor).to(y.dtype.element_ty), inside)


@triton.jit(do_not_specialize_on_alignment=["keep", "again", "d_keep", "d_again"])
def _backward(
    d_y, y, factors, d_x, start, keep, again, d_keep, d_again, d_start, rows, width, least,
    ADD: tl.constexpr, MIX: tl.constexpr, FIRST: tl.constexpr, BLOCK: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Every so many rows; the gradients of the two numbers are sums over them."""
    columns = tl.arange(0, BLOCK)
    inside = columns < width
    wide = tl.zeros([BLOCK], tl.int64)  # rows times width can be more than 32 bits hold
    if MIX:
        kept = tl.load(keep)
        once_more = tl.load(again)
        by_stream = tl.zeros([BLOCK], tl.float32)
        by_start = tl.zeros([BLOCK], tl.float32)
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=STAGES):
        at = (wide + row) * width + columns
        slope = tl.load(d_y + at, inside, 0.0).to(tl.float32)
        value = tl.load(y + at, inside, 0.0).to(tl.float32)
        if ADD:
            past = tl.load(d_x + at, inside, 0.0).to(tl.float32)
        if MIX:
            begun = tl.load(start + at, inside, 0.0).to(tl.float32)
            if not FIRST:
                so_far = tl.load(d_start + at, inside, 0.0).to(tl.float32)
        factor = tl.load(factors + row)
        slope = (slope - value * (tl.sum(slope * value, 0) / width)) * factor
        if ADD:
            slope += past
        if MIX:
            by_stream += slope * (value / factor)
            by_start += slope * begun
            to_start = slope * once_more
            if not FIRST:
                to_start += so_far
            tl.store(d_start + at, to_start.to(d_start.dtype.element_ty), inside)
            slope *= kept
        tl.store(d_x + at, slope.to(d_x.dtype.element_ty), inside)
    if MIX:
        along_start = tl.sum(by_start, 0)
        divisor = tl.where(kept < 0, tl.minimum(kept, -least), tl.maximum(kept, least))
        tl.atomic_add(d_again, along_start)
        tl.atomic_add(d_keep, (tl.sum(by_stream, 0) - once_more * along_start) / divisor)
