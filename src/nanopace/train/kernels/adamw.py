"""AdamW in one pass over a weight, with averages in bfloat16, which halves the memory of the optimizer state.

An average often changes by less than bfloat16 can express, and rounding to nearest would leave it unchanged. So it is
rounded stochastically: up or down, with probabilities that make it correct on average.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

_BLOCK = 1024
EPSILON = 1e-8


def plain_adamw(
    weight: Tensor, gradient: Tensor, average: Tensor, square: Tensor, step: int, rate: float, decay: float,
    betas: tuple[float, float],
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Weight and averages after a step, in float32: the twin of `adamw`, except for the rounding of the averages."""
    weight = weight * (1 - rate * decay)
    average = torch.lerp(average.float(), gradient, 1 - betas[0])
    square = torch.lerp(square.float(), gradient * gradient, 1 - betas[1])
    denominator = (square / (1 - betas[1] ** step)).sqrt() + EPSILON
    return weight - rate / (1 - betas[0] ** step) * average / denominator, average, square


def adamw(
    weight: Tensor,
    gradient: Tensor,
    average: Tensor,
    square: Tensor,
    step: Tensor,
    found_inf: Tensor,
    rate: Tensor,
    *,
    decay: float,
    betas: tuple[float, float],
    seed: int,
) -> None:
    """Update everything in place. `step` already counts this one. If `found_inf` is not 0, nothing changes. Whatever
    differs from step to step is read on the card, so that a CUDA graph can record it."""
    size = weight.numel()
    _adamw[(triton.cdiv(size, _BLOCK),)](
        weight, gradient, average, square, step, found_inf, rate, decay, *betas, EPSILON, seed, size,
        BLOCK=_BLOCK, num_warps=4,
    )  # fmt: skip


@triton.jit
def _stochastic_round(value, random):
    """Round to bfloat16, up with a probability proportional to the distance from the value below."""
    bits = value.to(tl.uint32, bitcast=True) + (random & 0xFFFF)
    return (bits & 0xFFFF0000).to(tl.float32, bitcast=True).to(tl.bfloat16)


@triton.jit
def _adamw(
    weight, gradient, average, square, step, found_inf, rate, decay, beta1, beta2, epsilon, seed, size,
    BLOCK: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    if tl.load(found_inf) == 0:
        count = tl.load(step)
        lr = tl.load(rate)
        grad = tl.load(gradient + at, inside, 0.0)
        mean = tl.load(average + at, inside, 0.0).to(tl.float32)
        variance = tl.load(square + at, inside, 0.0).to(tl.float32)
        value = tl.load(weight + at, inside, 0.0) * (1 - lr * decay)
        mean += (grad - mean) * (1 - beta1)
        variance += (grad * grad - variance) * (1 - beta2)
        denominator = tl.sqrt(variance / (1 - tl.exp2(count * tl.log2(beta2)))) + epsilon
        value -= lr / (1 - tl.exp2(count * tl.log2(beta1))) * mean / denominator
        tl.store(weight + at, value, inside)
        # Each weight draws one random number per step and uses both halves.
        random = tl.randint(seed + count.to(tl.int32), at.to(tl.int32)).to(tl.uint32, bitcast=True)
        tl.store(average + at, _stochastic_round(mean, random), inside)
        tl.store(square + at, _stochastic_round(variance, random >> 16), inside)
