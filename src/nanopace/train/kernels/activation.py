"""GELU and its backward pass, which recomputes the activation if it was not saved.

erf(u) = 1 - (a1 t + ... + a5 t^5) exp(-u^2), t = 1 / (1 + p u), accurate to 1.5e-7 (Abramowitz and Stegun, 7.1.26);
bfloat16 only resolves 4e-3. The derivative needs the same exponential, so the two share one.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn import functional

_BLOCK = 4096


def plain_gelu(h: Tensor) -> Tensor:
    """The twin of `gelu`."""
    return functional.gelu(h.float()).to(h.dtype)


def gelu(h: Tensor) -> Tensor:
    g = torch.empty_like(h)
    _gelu_forward[(triton.cdiv(h.numel(), _BLOCK),)](h, g, h.numel(), BLOCK=_BLOCK, num_warps=8)
    return g


def gelu_backward(
    d_g: Tensor, h: Tensor, saved: Tensor | None, d8: Tensor | None = None, scale: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """d_h, which overwrites d_g, and g, which is recomputed if it was not saved. `d8` receives d_h divided by `scale`,
    in 8 bits."""
    g = torch.empty_like(h) if saved is None else saved
    _gelu_backward[(triton.cdiv(h.numel(), _BLOCK),)](
        d_g, h, g, d8, scale, h.numel(), RECOMPUTE=saved is None, FP8=d8 is not None, BLOCK=_BLOCK, num_warps=8
    )
    return d_g, g


@triton.jit
def _normal_cdf_and_density(x):
    """The normal distribution's CDF and density, from one exponential."""
    u = tl.abs(x) * 0.7071067811865476
    t = 1 / (1 + 0.3275911 * u)
    bell = tl.exp(-u * u)
    tail = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    half = 0.5 * tail * bell
    return tl.where(x < 0, half, 1 - half), bell * 0.3989422804014327


@triton.jit
def _gelu_forward(h, g, size, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(h + at, at < size, 0.0).to(tl.float32)
    cdf, _ = _normal_cdf_and_density(x)
    tl.store(g + at, (x * cdf).to(g.dtype.element_ty), at < size)


@triton.jit
def _gelu_backward(d_g, h, g, d8, scale, size, RECOMPUTE: tl.constexpr, FP8: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(h + at, at < size, 0.0).to(tl.float32)
    grad = tl.load(d_g + at, at < size, 0.0).to(tl.float32)
    cdf, density = _normal_cdf_and_density(x)
    grad *= cdf + x * density
    tl.store(d_g + at, grad.to(d_g.dtype.element_ty), at < size)
    if FP8:
        tl.store(d8 + at, (grad / tl.load(scale)).to(d8.dtype.element_ty), at < size)
    if RECOMPUTE:
        tl.store(g + at, (x * cdf).to(g.dtype.element_ty), at < size)
