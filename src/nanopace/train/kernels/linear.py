"""Gradients of matrices, added up in float32 in the product itself and not in a pass of its own."""

from __future__ import annotations

import torch
from torch import Tensor


def accumulate(gradient: Tensor, d_out: Tensor, x: Tensor) -> None:
    """gradient += d_out^T x"""
    if gradient.is_cuda and x.dtype != torch.float32:
        torch.addmm(gradient, d_out.t(), x, out_dtype=torch.float32, out=gradient)
    else:
        gradient.addmm_(d_out.t().float(), x.float())
