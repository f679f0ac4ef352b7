"""The head and the cross entropy, a few thousand tokens at a time; the gradient overwrites the logits.

So the logits of a large micro-batch are never all in memory at once: for GPT-2 they would be the largest thing there.
The gradient is ready as soon as the loss is.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn import functional

from nanopace.hardware.memory import rows_at_a_time
from nanopace.train.kernels.addmm import addmm_
from nanopace.train.kernels.fp8 import FP8_GRADIENT, Fp8Weight

_VALUES_PER_THREAD = 8  # one wide load of bfloat16
_WARPS = 32  # per row: then few rows are in flight, and each is still in the L2 cache when it is read again
_LOWEST = -1e30  # stands for minus infinity, but minus itself gives 0, not NaN
_UNIT = 32768.0  # a token's share of the loss, the largest possible gradient of its logits, in 8 bits


def plain_head_loss(x: Tensor, weight: Tensor, targets: Tensor, cap: float | None = None) -> Tensor:
    """The mean loss: the twin of `head_gradients`. `cap` is the soft limit on the logits' magnitude, if any."""
    logits = (x @ weight.t()).float()
    if cap is not None:
        logits = cap * torch.tanh(logits / cap)
    return functional.cross_entropy(logits, targets, ignore_index=-1)


def head_losses(x: Tensor, weight: Tensor, targets: Tensor, cap: float | None = None) -> Tensor:
    """The loss of each token, without gradients."""
    losses = torch.empty(len(x), device=x.device, dtype=torch.float32)
    for some in _chunks(x, weight):
        cross_entropy(torch.mm(x[some], weight.t()), targets[some], losses[some], None, 0.0, cap)
    return losses


def head_gradients(
    x: Tensor,
    weight: Tensor,
    gradient: Tensor,
    targets: Tensor,
    share: float,
    cap: float | None = None,
    x8: Tensor | None = None,
    weight8: Fp8Weight | None = None,
) -> tuple[Tensor, Tensor]:
    """The mean loss, and d_x; adds the weight's gradient to `gradient`. Both gradients are of `share` times the loss.
    With `x8` and `weight8`, the logits and d_x are computed in 8 bits."""
    losses = torch.empty(len(x), device=x.device, dtype=torch.float32)
    counted = (targets >= 0).sum()
    d_x = torch.empty_like(x)
    scale = None if weight8 is None else share / counted / _UNIT
    for some in _chunks(x, weight):
        if x8 is None or weight8 is None or scale is None:
            logits = torch.mm(x[some], weight.t())
            cross_entropy(logits, targets[some], losses[some], counted, share, cap)
            torch.mm(logits, weight, out=d_x[some])
        else:
            logits = weight8.product(x8[some])
            d8 = torch.empty_like(logits, dtype=FP8_GRADIENT)
            cross_entropy(logits, targets[some], losses[some], counted, share, cap, d8)
            d_x[some] = weight8.input_gradient(d8, scale)
            del d8
        addmm_(gradient, logits.t(), x[some])
        del logits  # before allocating the next ones
    return losses.sum() / counted, d_x


def _chunks(x: Tensor, weight: Tensor) -> list[slice]:
    """Slices of rows, all but the last of equal length."""
    rows = rows_at_a_time(len(x), len(weight), x.element_size())
    return [slice(first, min(first + rows, len(x))) for first in range(0, len(x), rows)]


def cross_entropy(
    logits: Tensor,
    targets: Tensor,
    losses: Tensor,
    counted: Tensor | None,
    share: float,
    cap: float | None,
    d8: Tensor | None = None,
) -> None:
    """The loss of each row. With `counted`, the gradient of `share` times the mean loss overwrites the logits. `d8`
    receives it in 8 bits, where a token's share of the loss is _UNIT."""
    rows, width = logits.shape
    _cross_entropy[(rows,)](
        logits,
        targets,
        losses,
        counted,
        d8,
        share,
        width,
        BACKWARD=counted is not None,
        FP8=d8 is not None,
        UNIT=_UNIT,
        CAP=cap or 0.0,
        # Losses alone are exact, so that they can be compared; and the interpreter has no such instruction.
        APPROXIMATE=cap is not None and counted is not None and logits.device.type != "cpu",
        LOWEST=_LOWEST,
        BLOCK=32 * _WARPS * _VALUES_PER_THREAD,
        PER_THREAD=_VALUES_PER_THREAD,
        num_warps=_WARPS,
    )


@triton.jit
def _cross_entropy(
    logits, targets, losses, counted, d8, share, width, BACKWARD: tl.constexpr, FP8: tl.constexpr,
    UNIT: tl.constexpr, CAP: tl.constexpr, APPROXIMATE: tl.constexpr, LOWEST: tl.constexpr, BLOCK: tl.constexpr,
    PER_THREAD: tl.constexpr,
):  # fmt: skip
    """Exponentials are computed as powers of two, which is what a card does; LOG2_E converts."""
    LOG2_E: tl.constexpr = 1.4426950408889634  # noqa: N806
    row = tl.program_id(0).to(tl.int64)
    logits += row * width
    target = tl.load(targets + row)
    counts = target >= 0
    chosen = tl.load(logits + tl.where(counts, target, 0)).to(tl.float32)
    chosen_derivative = 1.0
    if CAP > 0:
        chosen, chosen_derivative = _capped(chosen, CAP, APPROXIMATE)
    top = tl.full([BLOCK // PER_THREAD], LOWEST, tl.float32)  # each thread's maximum
    total = tl.zeros([BLOCK // PER_THREAD], tl.float32)  # sum of exponentials relative to it
    for first in range(0, width, BLOCK):
        columns = first + tl.arange(0, BLOCK)
        value = tl.load(logits + columns, columns < width, LOWEST).to(tl.float32)
        if CAP > 0:  # no exponential can overflow, so there is no need to subtract a maximum
            value, _ = _capped(value, CAP, APPROXIMATE)
            value = tl.where(columns < width, tl.exp2(value * LOG2_E), 0.0)
            total += tl.sum(tl.reshape(value, [BLOCK // PER_THREAD, PER_THREAD]), 1)
        else:
            value = tl.reshape(value, [BLOCK // PER_THREAD, PER_THREAD])
            higher = tl.maximum(top, tl.max(value, 1))
            total *= tl.exp2((top - higher) * LOG2_E)
            total += tl.sum(tl.exp2((value - higher[:, None]) * LOG2_E), 1)
            top = higher
    if CAP > 0:
        logarithm = tl.log2(tl.sum(total, 0))
    else:
        highest = tl.max(top, 0)
        logarithm = highest * LOG2_E + tl.log2(tl.sum(total * tl.exp2((top - highest) * LOG2_E), 0))
    tl.store(losses + row, tl.where(counts, logarithm / LOG2_E - chosen, 0.0))
    if BACKWARD:
        factor = share / tl.load(counted).to(tl.float32)
        offset = tl.where(counts, tl.log2(factor) - logarithm, LOWEST)
        for first in range(0, width, BLOCK):
            columns = first + tl.arange(0, BLOCK)
            value = tl.load(logits + columns, columns < width, LOWEST).to(tl.float32)
            if CAP > 0:
                value, derivative = _capped(value, CAP, APPROXIMATE)
                grad = tl.exp2(value * LOG2_E + offset) * derivative
            else:
                grad = tl.exp2(value * LOG2_E + offset)
            tl.store(logits + columns, grad.to(logits.dtype.element_ty), columns < width)
            if FP8:
                grad *= UNIT / factor
                tl.store(d8 + row * width + columns, grad.to(d8.dtype.element_ty), columns < width)
        tl.debug_barrier()  # the target's gradient is overwritten next
        grad = (tl.exp2(chosen * LOG2_E + offset) - factor) * chosen_derivative
        tl.store(logits + target, grad.to(logits.dtype.element_ty), counts)
        if FP8:
            tl.store(d8 + row * width + target, (grad * (UNIT / factor)).to(d8.dtype.element_ty), counts)


@triton.jit
def _capped(x, CAP: tl.constexpr, APPROXIMATE: tl.constexpr):
    """CAP tanh(x / CAP) and its derivative. Special functions limit this kernel's speed, and a card has tanh as a
    single one, to 11 bits; the logits have 8. Otherwise it takes an exponential and a division."""
    if APPROXIMATE:
        tanh = tl.inline_asm_elementwise(
            "tanh.approx.f32 $0, $1;", "=f,f", [x * (1 / CAP)], dtype=tl.float32, is_pure=True, pack=1
        )
    else:
        tanh = 1 - 2 / (1 + tl.exp2(x * (2 * 1.4426950408889634 / CAP)))
    return CAP * tanh, 1 - tanh * tanh
