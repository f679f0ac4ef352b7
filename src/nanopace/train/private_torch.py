"""What torch can do but has no public name for, each with the plain way beside it, should the name be gone one day.

Two more of the kind are beside what they belong to: the allocator's setting in out_of_memory.py, and how optimizers
are kept from importing the compiler in warm_start.py.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def zero_all(tensors: list[Tensor]) -> None:
    """One launch instead of one for each: torch's own optimizers zero gradients this way."""
    if hasattr(torch, "_foreach_zero_"):
        torch._foreach_zero_(tensors)
    else:
        for each in tensors:
            each.zero_()


def subtract_all(tensors: list[Tensor], others: list[Tensor]) -> None:
    """One launch instead of one for each: torch's own optimizers step this way."""
    if hasattr(torch, "_foreach_sub_"):
        torch._foreach_sub_(tensors, others)
    else:
        for each, other in zip(tensors, others, strict=True):
            each.sub_(other)


def gradients_of(inputs: Sequence[Tensor], out: Tensor, d_out: Tensor) -> tuple[Tensor, ...]:
    """torch.autograd.grad, without its check of shapes, for which it imports a computer algebra system: 1.6 s of a
    start."""
    engine = getattr(torch.autograd.Variable, "_execution_engine", None)
    if engine is None:
        return torch.autograd.grad(out, inputs, d_out)
    found: tuple[Tensor, ...] = engine.run_backward(
        (out,), (d_out,), False, False, tuple(inputs), False, accumulate_grad=False
    )
    return found


def scaled_mm(a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor) -> Tensor:
    """a b in bfloat16, of 8 bits times their scales. The public torch.nn.functional.scaled_mm came with torch 2.10, and
    we take older ones. RuntimeError: this torch, or this card, cannot."""
    if not hasattr(torch, "_scaled_mm"):
        raise RuntimeError("this torch does not multiply in 8 bits")
    out: Tensor = torch._scaled_mm(
        a, b, scale_a=scale_a, scale_b=scale_b, out_dtype=torch.bfloat16, use_fast_accum=True
    )
    return out
