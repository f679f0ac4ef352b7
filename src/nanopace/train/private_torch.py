"""torch's private functions that we use, each with a plain fallback in case a later torch drops it.

Two more are next to their users: the allocator setting in out_of_memory.py, and in warm_start.py what keeps optimizers
from importing the compiler.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
import torch.utils.deterministic
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


def cudnn_attention(q: Tensor, k: Tensor, v: Tensor, scale: float | None) -> tuple[Tensor, Tensor]:
    """cuDNN's causal attention, and the logarithms of the softmax's sums. RuntimeError if it does not take the shape or
    this torch lacks it."""
    attend = getattr(torch.ops.aten, "_scaled_dot_product_cudnn_attention", None)
    if attend is None:
        raise RuntimeError("this torch has no attention by cuDNN")
    out, sums, *_ = attend(q, k, v, None, True, 0.0, True, False, scale=scale)
    return out, sums


@contextmanager
def deterministic_algorithms() -> Iterator[None]:
    """Inside, torch's operations give the same bits every time, or raise RuntimeError. Not torch's
    use_deterministic_algorithms, which imports the compiler; and new tensors are not filled, which would take time."""
    settings: Any = torch.utils.deterministic
    fills, mode = settings.fill_uninitialized_memory, torch.get_deterministic_debug_mode()
    settings.fill_uninitialized_memory = False
    torch.set_deterministic_debug_mode("error")
    try:
        yield
    finally:
        torch.set_deterministic_debug_mode(mode)
        settings.fill_uninitialized_memory = fills


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


def multiply_all(tensors: list[Tensor], factor: Tensor) -> None:
    """Multiply all tensors by the same number in one launch, as torch clips gradients."""
    if hasattr(torch, "_foreach_mul_"):
        torch._foreach_mul_(tensors, factor)
    else:
        for each in tensors:
            each.mul_(factor)


def norms_of(tensors: list[Tensor]) -> list[Tensor]:
    """The norm of each tensor, as torch computes them for the norm of all gradients."""
    if hasattr(torch, "_foreach_norm"):
        return list(torch._foreach_norm(tensors, 2.0))
    return [torch.linalg.vector_norm(each) for each in tensors]


def fused_adamw(
    weight: Tensor,
    gradient: Tensor,
    average: Tensor,
    square: Tensor,
    count: Tensor,
    group: Mapping[str, Any],
    found_inf: Tensor | None,
) -> None:
    """AdamW in one kernel, as torch.optim.AdamW steps with fused=True, for any part of a weight. `count` includes this
    step."""
    beta1, beta2 = group["betas"]
    torch._fused_adamw_(
        [weight],
        [gradient],
        [average],
        [square],
        [],
        [count],
        lr=group["lr"],
        beta1=beta1,
        beta2=beta2,
        weight_decay=group["weight_decay"],
        eps=group["eps"],
        amsgrad=False,
        maximize=False,
        grad_scale=None,
        found_inf=found_inf,
    )


@cache
def _cycles_per_s(device: torch.device) -> float:
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda._sleep(300_000_000)  # an idle card has to raise its clock first
    begin.record()
    torch.cuda._sleep(100_000_000)
    end.record()
    torch.cuda.synchronize(device)
    return 1e8 / (float(begin.elapsed_time(end)) / 1000)


def spin(seconds: float, device: torch.device) -> None:
    """Keep the current stream busy for that long, by one thread that counts cycles. For benches: if the card lowers its
    clock, it takes longer."""
    torch.cuda._sleep(int(seconds * _cycles_per_s(device)))
