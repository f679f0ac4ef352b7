"""Layer norm and RMS norm, both without a weight, and their backward passes, which add to the residual stream's
gradient.

The weight of GPT's norms is folded into the matrix after it (matrix.py), so none is needed here. The backward pass
needs the norm's output, not its input, which may be overwritten.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn import functional

from nanopace.train.kernels.fp8 import scale_after_norm
from nanopace.train.kernels.rows import block_of, programs, stages_of, warps_of

EPSILON = 1e-5
RMS_EPSILON = 1e-6


def plain_layer_norm(x: Tensor) -> Tensor:
    """The twin of `layer_norm`."""
    return functional.layer_norm(x.float(), x.shape[-1:], None, None, EPSILON).to(x.dtype)


def plain_rms_norm(x: Tensor) -> Tensor:
    """The twin of `rms_norm`."""
    return functional.rms_norm(x.float(), x.shape[-1:], eps=RMS_EPSILON).to(x.dtype)


def layer_norm(x: Tensor, y8: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Each row normalised to mean 0 and variance 1, and its scale factor. `y8` receives the same in 8 bits."""
    return _forward(x, y8, EPSILON, centred=True)


def rms_norm(x: Tensor, y8: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Each row scaled to a root mean square of 1, and its scale factor. `y8` receives the same in 8 bits."""
    return _forward(x, y8, RMS_EPSILON, centred=False)


def layer_norm_backward(
    d_y: Tensor,
    y: Tensor,
    factor: Tensor,
    d_residual: Tensor | None,
    d8: Tensor | None = None,
    scale: Tensor | None = None,
) -> Tensor:
    """d_x, added in place to `d_residual` if that is given. `d8` receives the same divided by `scale`, in 8 bits."""
    return _backward(d_y, y, factor, d_residual, d8, scale, centred=True)


def rms_norm_backward(
    d_y: Tensor,
    y: Tensor,
    factor: Tensor,
    d_residual: Tensor | None,
    d8: Tensor | None = None,
    scale: Tensor | None = None,
) -> Tensor:
    """d_x, added in place to `d_residual` if that is given. `d8` receives the same divided by `scale`, in 8 bits."""
    return _backward(d_y, y, factor, d_residual, d8, scale, centred=False)


def _forward(x: Tensor, y8: Tensor | None, epsilon: float, *, centred: bool) -> tuple[Tensor, Tensor]:
    rows, width = x.shape
    y, factor = torch.empty_like(x), torch.empty(rows, device=x.device, dtype=torch.float32)
    _norm_forward[(programs(x.device, rows),)](
        x,
        y,
        y8,
        factor,
        rows,
        width,
        epsilon,
        scale_after_norm(width),
        CENTRED=centred,
        FP8=y8 is not None,
        BLOCK=block_of(width),
        STAGES=stages_of(width, x),
        num_warps=max(1, warps_of(width) // 2),
    )
    return y, factor


def _backward(
    d_y: Tensor,
    y: Tensor,
    factor: Tensor,
    d_residual: Tensor | None,
    d8: Tensor | None,
    scale: Tensor | None,
    *,
    centred: bool,
) -> Tensor:
    rows, width = y.shape
    d_x = torch.empty_like(y) if d_residual is None else d_residual
    _norm_backward[(programs(y.device, rows),)](
        d_y,
        y,
        factor,
        d_x,
        d8,
        scale,
        rows,
        width,
        CENTRED=centred,
        ADD=d_residual is not None,
        FP8=d8 is not None,
        BLOCK=block_of(width),
        STAGES=stages_of(width, d_y, y, d_residual),
        num_warps=max(1, warps_of(width) // 2),
    )
    return d_x


@triton.jit
def _norm_forward(
    x, y, y8, factor, rows, width, epsilon, scale,
    CENTRED: tl.constexpr, FP8: tl.constexpr, BLOCK: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    columns = tl.arange(0, BLOCK)
    inside = columns < width
    wide = tl.zeros([BLOCK], tl.int64)  # rows times width can exceed 32 bits
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=STAGES):
        at = (wide + row) * width + columns
        value = tl.load(x + at, inside, 0.0).to(tl.float32)
        if CENTRED:
            value = tl.where(inside, value - tl.sum(value, 0) / width, 0.0)
        inverse = 1 / tl.sqrt(tl.sum(value * value, 0) / width + epsilon)
        tl.store(factor + row, inverse)
        rounded = (value * inverse).to(y.dtype.element_ty)
        tl.store(y + at, rounded, inside)
        if FP8:  # from the rounded values, which the backward pass uses
            tl.store(y8 + at, (rounded.to(tl.float32) * scale).to(y8.dtype.element_ty), inside)


@triton.jit
def _norm_backward(
    d_y, y, factor, d_x, d8, scale, rows, width,
    CENTRED: tl.constexpr, ADD: tl.constexpr, FP8: tl.constexpr, BLOCK: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    columns = tl.arange(0, BLOCK)
    inside = columns < width
    wide = tl.zeros([BLOCK], tl.int64)
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=STAGES):
        at = (wide + row) * width + columns
        grad = tl.load(d_y + at, inside, 0.0).to(tl.float32)
        value = tl.load(y + at, inside, 0.0).to(tl.float32)
        if ADD:
            residual = tl.load(d_x + at, inside, 0.0).to(tl.float32)
        along = tl.sum(grad * value, 0) / width
        if CENTRED:
            grad -= tl.sum(grad, 0) / width
        grad = (grad - value * along) * tl.load(factor + row)
        if ADD:
            grad += residual
        tl.store(d_x + at, grad.to(d_x.dtype.element_ty), inside)
        if FP8:
            tl.store(d8 + at, (grad / tl.load(scale)).to(d8.dtype.element_ty), inside)
