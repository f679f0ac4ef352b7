"""ReLU squared, in place. The backward pass needs only the output: the derivative 2 relu(h) is twice the root of it."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor
from torch.nn import functional

_BLOCK = 4096


def plain_relu2(h: Tensor) -> Tensor:
    """The twin of `relu2`; it returns a new tensor."""
    return functional.relu(h.float()).square().to(h.dtype)


def relu2(h: Tensor) -> Tensor:
    """relu(h) squared, which overwrites h."""
    _relu2_forward[(triton.cdiv(h.numel(), _BLOCK),)](h, h.numel(), BLOCK=_BLOCK, num_warps=8)
    return h


def relu2_backward(d_g: Tensor, g: Tensor, d8: Tensor | None = None, scale: Tensor | None = None) -> Tensor:
    """d_h, given g = relu2(h); it overwrites d_g. `d8` receives the same divided by `scale`, in 8 bits."""
    count = triton.cdiv(g.numel(), _BLOCK)
    _relu2_backward[(count,)](d_g, g, d8, scale, g.numel(), FP8=d8 is not None, BLOCK=_BLOCK, num_warps=8)
    return d_g


@triton.jit
def _relu2_forward(h, size, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.maximum(tl.load(h + at, at < size, 0.0).to(tl.float32), 0.0)
    tl.store(h + at, (x * x).to(h.dtype.element_ty), at < size)


@triton.jit
def _relu2_backward(d_g, g, d8, scale, size, FP8: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    root = tl.sqrt(tl.load(g + at, at < size, 0.0).to(tl.float32))
    grad = tl.load(d_g + at, at < size, 0.0).to(tl.float32)
    grad = 2 * grad * root
    tl.store(d_g + at, grad.to(d_g.dtype.element_ty), at < size)
    if FP8:
        tl.store(d8 + at, (grad / tl.load(scale)).to(d8.dtype.element_ty), at < size)
