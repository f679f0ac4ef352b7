"""Layer norm without a weight, and its backward pass, which is added to the gradient that goes past the norm.

The weight of a norm is folded into the matrix after it (fused.py), so that none is needed here. The backward pass needs
what the norm gave and nothing of what it was given, which may be overwritten.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn import functional

from nanopace.train.kernels.rows import block_of, programs, stages_of, warps_of

EPSILON = 1e-5


def plain_layer_norm(x: Tensor) -> Tensor:
    """The twin of `layer_norm`."""
    return functional.layer_norm(x.float(), x.shape[-1:], None, None, EPSILON).to(x.dtype)


def layer_norm(x: Tensor) -> tuple[Tensor, Tensor]:
    """Each row with mean 0 and variance 1; and the factor that made it so."""
    rows, width = x.shape
    y, factor = torch.empty_like(x), torch.empty(rows, device=x.device, dtype=torch.float32)
    _forward[(programs(x.device, rows),)](
        x,
        y,
        factor,
        rows,
        width,
        EPSILON,
        BLOCK=block_of(width),
        STAGES=stages_of(width, x),
        num_warps=max(1, warps_of(width) // 2),
    )
    return y, factor


def layer_norm_backward(d_y: Tensor, y: Tensor, factor: Tensor, past: Tensor | None) -> Tensor:
    """d_x, added to `past` in place where that is given."""
    rows, width = y.shape
    d_x = torch.empty_like(y) if past is None else past
    _backward[(programs(y.device, rows),)](
        d_y,
        y,
        factor,
        d_x,
        rows,
        width,
        ADD=past is not None,
        BLOCK=block_of(width),
        STAGES=stages_of(width, d_y, y, past),
        num_warps=max(1, warps_of(width) // 2),
    )
    return d_x


@triton.jit
def _forward(x, y, factor, rows, width, epsilon, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    inside = columns < width
    wide = tl.zeros([BLOCK], tl.int64)  # rows times width can be more than 32 bits hold
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=STAGES):
        at = (wide + row) * width + columns
        value = tl.load(x + at, inside, 0.0).to(tl.float32)
        value = tl.where(inside, value - tl.sum(value, 0) / width, 0.0)
        inverse = 1 / tl.sqrt(tl.sum(value * value, 0) / width + epsilon)
        tl.store(factor + row, inverse)
        tl.store(y + at, (value * inverse).to(y.dtype.element_ty), inside)


@triton.jit
def _backward(d_y, y, factor, d_x, rows, width, ADD: tl.constexpr, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    inside = columns < width
    wide = tl.zeros([BLOCK], tl.int64)  # rows times width can be more than 32 bits hold
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=STAGES):
        at = (wide + row) * width + columns
        slope = tl.load(d_y + at, inside, 0.0).to(tl.float32)
        value = tl.load(y + at, inside, 0.0).to(tl.float32)
        if ADD:
            past = tl.load(d_x + at, inside, 0.0).to(tl.float32)
        along = tl.sum(slope * value, 0) / width
        slope = (slope - tl.sum(slope, 0) / width - value * along) * tl.load(factor + row)
        if ADD:
            slope += past
        tl.store(d_x + at, slope.to(d_x.dtype.element_ty), inside)
