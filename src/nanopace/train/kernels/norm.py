"""A residual addition and the norm after it, in one pass; and its backward pass, in one more.

Layer norm with a weight is GPT-2's; the root mean square without one is what newer models have.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn import functional

from nanopace.train.kernels.rows import block_of, programs, warps_of

EPSILON = 1e-5
_STAGES = 4  # rows that the backward pass has on their way


def plain_add_norm(x: Tensor, branch: Tensor | None, weight: Tensor | None) -> tuple[Tensor, Tensor]:
    """The sum, and its norm. The twin of `add_norm`."""
    total = x if branch is None else (x.float() + branch.float()).to(x.dtype)
    if weight is None:
        normed = functional.rms_norm(total.float(), total.shape[-1:], eps=EPSILON)
    else:
        normed = functional.layer_norm(total.float(), weight.shape, weight.float(), None, EPSILON)
    return total, normed.to(torch.bfloat16)


def add_norm(
    x: Tensor, branch: Tensor | None, weight: Tensor | None, weight_gradient: Tensor | None
) -> tuple[Tensor, Tensor]:
    """x + branch in x's precision, and its norm in bfloat16. `weight_gradient` is added to in the backward pass."""
    total, normed = _AddNorm.apply(x, branch, weight, weight_gradient)
    return total, normed


class _AddNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, branch: Tensor | None, weight: Tensor | None, weight_gradient: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        rows, width = x.shape
        total = x if branch is None else torch.empty_like(x)
        normed = torch.empty_like(x, dtype=torch.bfloat16)
        statistics = torch.empty((2, rows), device=x.device, dtype=torch.float32)
        _forward[(rows,)](
            x,
            branch,
            weight,
            total,
            normed,
            statistics,
            rows,
            width,
            EPSILON,
            ADD=branch is not None,
            LAYER=weight is not None,
            BLOCK=block_of(width),
            num_warps=warps_of(width),
        )
        ctx.save_for_backward(total, weight, statistics)
        ctx.weight_gradient, ctx.added = weight_gradient, branch is not None
        ctx.set_materialize_grads(False)
        return (x.view_as(x) if branch is None else total), normed

    @staticmethod
    def backward(ctx: Any, d_total: Tensor | None, d_normed: Tensor) -> tuple[Tensor, Tensor | None, None, None]:
        total, weight, statistics = ctx.saved_tensors
        rows, width = total.shape
        d_x = torch.empty_like(total)
        halved = total.dtype != torch.bfloat16 and ctx.added  # then the branch wants it in its own precision
        d_branch = torch.empty_like(total, dtype=torch.bfloat16) if halved else d_x
        _backward[(programs(total.device, rows),)](
            d_total,
            d_normed,
            total,
            weight,
            statistics,
            d_x,
            d_branch,
            ctx.weight_gradient,
            rows,
            width,
            PASSED_ON=d_total is not None,
            HALVED=halved,
            LAYER=weight is not None,
            BLOCK=block_of(width),
            STAGES=_STAGES,
            num_warps=max(1, warps_of(width) // 2),
        )
        return d_x, d_branch if ctx.added else None, None, None


@triton.jit
def _forward(
    x, branch, weight, total, normed, statistics, rows, width, epsilon,
    ADD: tl.constexpr, LAYER: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < width
    at = row * width + columns
    value = tl.load(x + at, inside, 0.0).to(tl.float32)
    if ADD:
        value += tl.load(branch + at, inside, 0.0).to(tl.float32)
        value = value.to(total.dtype.element_ty)
        tl.store(total + at, value, inside)
        value = value.to(tl.float32)
    mean = 0.0
    if LAYER:
        mean = tl.sum(value, 0) / width
        value = tl.where(inside, value - mean, 0.0)
        tl.store(statistics + row, mean)
    inverse = 1 / tl.sqrt(tl.sum(value * value, 0) / width + epsilon)
    tl.store(statistics + rows + row, inverse)
    value *= inverse
    if LAYER:
        value *= tl.load(weight + columns, inside, 0.0).to(tl.float32)
    tl.store(normed + at, value.to(tl.bfloat16), inside)


@triton.jit
def _backward(
    d_total, d_normed, total, weight, statistics, d_x, d_branch, weight_gradient, rows, width,
    PASSED_ON: tl.constexpr, HALVED: tl.constexpr, LAYER: tl.constexpr, BLOCK: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Every so many rows; the weight's gradient is their sum."""
    columns = tl.arange(0, BLOCK)
    inside = columns < width
    wide = tl.zeros([BLOCK], tl.int64)  # rows times width can be more than 32 bits hold
    if LAYER:
        scale = tl.load(weight + columns, inside, 0.0).to(tl.float32)
        d_weight = tl.zeros([BLOCK], tl.float32)
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=STAGES):
        at = (wide + row) * width + columns
        slope = tl.load(d_normed + at, inside, 0.0).to(tl.float32)
        value = tl.load(total + at, inside, 0.0).to(tl.float32)
        if PASSED_ON:
            passed_on = tl.load(d_total + at, inside, 0.0).to(tl.float32)
        inverse = tl.load(statistics + rows + row)
        if LAYER:
            value = tl.where(inside, value - tl.load(statistics + row), 0.0)
        value *= inverse
        if LAYER:
            d_weight += slope * value
            slope *= scale
        along = tl.sum(slope * value, 0) / width
        if LAYER:
            slope = tl.where(inside, slope - tl.sum(slope, 0) / width, 0.0)
        slope = (slope - value * along) * inverse
        if PASSED_ON:
            slope += passed_on
        tl.store(d_x + at, slope.to(d_x.dtype.element_ty), inside)
        if HALVED:
            tl.store(d_branch + at, slope.to(tl.bfloat16), inside)
    if LAYER:
        tl.atomic_add(weight_gradient + columns, d_weight, inside)
