"""Matrix products whose weights' gradients are added up in float32, in the product itself and not in a pass of its own.

The weights that are multiplied are bfloat16 copies; their gradients go where the float32 weights have theirs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from nanopace.train.kernels.activation import gelu, gelu_backward


class Weight(NamedTuple):
    """A weight as the kernels see it."""

    value: Tensor  # bfloat16
    gradient: Tensor  # float32, added to


def accumulate(gradient: Tensor, d_out: Tensor, x: Tensor) -> None:
    """gradient += d_out^T x"""
    if gradient.is_cuda:
        torch.addmm(gradient, d_out.t(), x, out_dtype=torch.float32, out=gradient)
    else:
        gradient.addmm_(d_out.t().float(), x.float())


def linear(x: Tensor, weight: Weight) -> Tensor:
    """x W^T, as functional.linear gives it."""
    out: Tensor = _Linear.apply(x, *weight)
    return out


def gelu_mlp(x: Tensor, into: Weight, out_of: Weight, *, keep: bool) -> Tensor:
    """The MLP of a block. What GELU gives is kept for the backward pass, or made once more there."""
    out: Tensor = _GeluMLP.apply(x, *into, *out_of, keep)
    return out


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, value: Tensor, gradient: Tensor) -> Tensor:
        ctx.save_for_backward(x, value)
        ctx.gradient = gradient
        return torch.mm(x, value.t())

    @staticmethod
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor, None, None]:
        x, value = ctx.saved_tensors
        d_x = torch.mm(d_out, value)
        accumulate(ctx.gradient, d_out, x)
        return d_x, None, None


class _GeluMLP(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, into: Tensor, d_into: Tensor, out_of: Tensor, d_out_of: Tensor, keep: bool
    ) -> Tensor:
        h = torch.mm(x, into.t())
        g = gelu(h)
        ctx.save_for_backward(x, h, g if keep else None, into, out_of)
        ctx.gradients = d_into, d_out_of
        return torch.mm(g, out_of.t())

    @staticmethod
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor, None, None, None, None, None]:
        x, h, g, into, out_of = ctx.saved_tensors
        d_into, d_out_of = ctx.gradients
        d_h, again = gelu_backward(torch.mm(d_out, out_of), h, again=g is None)
        accumulate(d_out_of, d_out, g if again is None else again)
        d_x = torch.mm(d_h, into)
        accumulate(d_into, d_h, x)
        return d_x, None, None, None, None, None
