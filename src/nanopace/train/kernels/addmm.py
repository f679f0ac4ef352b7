"""A matrix product that is added to what is there, in the product itself and not in a pass of its own."""

from __future__ import annotations

import torch
from torch import Tensor


def addmm_(total: Tensor, a: Tensor, b: Tensor) -> None:
    """total += a b. A total in float32 takes factors in bfloat16, and what is added to it is not rounded before."""
    if total.dtype == a.dtype:
        total.addmm_(a, b)
    elif total.is_cuda:
        torch.addmm(total, a, b, out_dtype=total.dtype, out=total)
    else:
        total.addmm_(a.to(total.dtype), b.to(total.dtype))
