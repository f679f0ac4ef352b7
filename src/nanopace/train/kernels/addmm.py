"""Adds a matrix product to a matrix within the product itself, not in a separate pass."""

from __future__ import annotations

import torch
from torch import Tensor


def addmm_(total: Tensor, a: Tensor, b: Tensor) -> None:
    """total += a b. A float32 total takes bfloat16 factors, and the product is not rounded before it is added."""
    if total.dtype == a.dtype:
        total.addmm_(a, b)
    elif total.is_cuda:
        torch.addmm(total, a, b, out_dtype=total.dtype, out=total)
    else:
        total.addmm_(a.to(total.dtype), b.to(total.dtype))
