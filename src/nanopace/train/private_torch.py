"""torch's private functions that we use, each with a plain fallback in case a later torch drops it.

Two more are next to their users: the allocator setting in out_of_memory.py, and in warm_start.py what keeps optimizers
from importing the compiler.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def zero_all(tensors: list[Tensor]) -> None:
    """Zero all tensors in one launch, as torch's own optimizers zero gradients."""
    if hasattr(torch, "_foreach_zero_"):
        torch._foreach_zero_(tensors)
    else:
        for each in tensors:
            each.zero_()


def subtract_all(tensors: list[Tensor], others: list[Tensor]) -> None:
    """Subtract all pairs in one launch, as torch's own optimizers step."""
    if hasattr(torch, "_foreach_sub_"):
        torch._foreach_sub_(tensors, others)
    else:
        for each, other in zip(tensors, others, strict=True):
            each.sub_(other)


def gradients_of(inputs: Sequence[Tensor], out: Tensor, d_out: Tensor) -> tuple[Tensor, ...]:
    """torch.autograd.grad without its shape check, which imports a computer algebra system: 1.6 s of a start."""
    engine = getattr(torch.autograd.Variable, "_execution_engine", None)
    if engine is None:
        return torch.autograd.grad(out, inputs, d_out)
    found: tuple[Tensor, ...] = engine.run_backward(
        (out,), (d_out,), False, False, tuple(inputs), False, accumulate_grad=False
    )
    return found


def scaled_mm(a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, *, fast: bool) -> Tensor:
    """The product a b in bfloat16, from 8-bit values and their scales. `fast` sums with fewer bits, which loses small
    terms next to large ones. We support torch older than 2.10, where the public torch.nn.functional.scaled_mm appeared.
    RuntimeError if this torch or this card cannot do it."""
    if not hasattr(torch, "_scaled_mm"):
        raise RuntimeError("this torch does not multiply in 8 bits")
    out: Tensor = torch._scaled_mm(
        a, b, scale_a=scale_a, scale_b=scale_b, out_dtype=torch.bfloat16, use_fast_accum=fast
    )
    return out
