"""The head and the cross entropy, some thousand tokens at a time: their logits are overwritten with their gradient.

So the logits of a whole micro-batch never exist: for GPT-2 they are the largest thing in memory. By the time the loss
is known, its gradient is, too; the backward pass only hands it on.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn import functional

from nanopace.train.kernels.linear import Weight, accumulate

CHUNK_BYTES = 1 << 29  # of logits: enough rows to fill the largest card, little beside the activations
_BLOCK = 2048
_LOWEST = -1e30  # as good as minus infinity, and its difference to itself is a number


def plain_head_loss(x: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
    """The mean loss. The twin of `head_loss`."""
    return functional.cross_entropy((x @ weight.t()).float(), targets, ignore_index=-1)


def head_loss(x: Tensor, weight: Weight, targets: Tensor, share: float) -> Tensor:
    """The mean loss. Its gradients are those of `share` times that, whatever the backward pass is begun with."""
    loss: Tensor = _HeadLoss.apply(x, *weight, targets, share)
    return loss


def head_losses(x: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
    """The loss of each token, without gradients."""
    losses = torch.empty(len(x), device=x.device, dtype=torch.float32)
    for some in _chunks(x, weight):
        _cross_entropy(torch.mm(x[some], weight.t()), targets[some], losses[some], None, 0.0)
    return losses


class _HeadLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, gradient: Tensor, targets: Tensor, share: float) -> Tensor:
        losses = torch.empty(len(x), device=x.device, dtype=torch.float32)
        counted = (targets >= 0).sum()
        d_x = torch.empty_like(x)
        for some in _chunks(x, weight):
            logits = torch.mm(x[some], weight.t())
            _cross_entropy(logits, targets[some], losses[some], counted, share)
            torch.mm(logits, weight, out=d_x[some])
            accumulate(gradient, logits, x[some])
        ctx.save_for_backward(d_x)
        return losses.sum() / counted

    @staticmethod
    def backward(ctx: Any, _: Tensor) -> tuple[Tensor, None, None, None, None]:
        (d_x,) = ctx.saved_tensors
        return d_x, None, None, None, None


def _chunks(x: Tensor, weight: Tensor) -> list[slice]:
    """Equal stretches of rows, each with no more logits than are allowed at a time."""
    count = triton.cdiv(len(x) * len(weight) * x.element_size(), CHUNK_BYTES)
    rows = triton.cdiv(triton.cdiv(len(x), count), 128) * 128
    return [slice(first, min(first + rows, len(x))) for first in range(0, len(x), rows)]


def _cross_entropy(logits: Tensor, targets: Tensor, losses: Tensor, counted: Tensor | None, share: float) -> None:
    rows, width = logits.shape
    _kernel[(rows,)](
        logits,
        targets,
        losses,
        counted,
        share,
        width,
        BACKWARD=counted is not None,
        LOWEST=_LOWEST,
        BLOCK=_BLOCK,
        num_warps=8,
    )


@triton.jit
def _kernel(
    logits, targets, losses, counted, share, width, BACKWARD: tl.constexpr, LOWEST: tl.constexpr, BLOCK: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    logits += row * width
    target = tl.load(targets + row)
    top = tl.full([BLOCK], LOWEST, tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    for first in range(0, width, BLOCK):
        columns = first + tl.arange(0, BLOCK)
        value = tl.load(logits + columns, columns < width, LOWEST).to(tl.float32)
        smaller = tl.exp(-tl.abs(value - top))  # of the two, relative to the larger
        total = tl.where(value > top, total * smaller + 1, total + smaller)
        top = tl.maximum(top, value)
    highest = tl.max(top, 0)
    logarithm = highest + tl.log(tl.sum(total * tl.exp(top - highest), 0))
    counts = target >= 0
    chosen = tl.load(logits + tl.where(counts, target, 0)).to(tl.float32)
    tl.store(losses + row, tl.where(counts, logarithm - chosen, 0.0))
    if BACKWARD:
        tl.debug_barrier()  # the chosen logit is read before it is overwritten
        factor = tl.where(counts, share / tl.load(counted).to(tl.float32), 0.0)
        for first in range(0, width, BLOCK):
            columns = first + tl.arange(0, BLOCK)
            value = tl.load(logits + columns, columns < width, LOWEST).to(tl.float32)
            slope = tl.exp(value - logarithm) - tl.where(columns == target, 1.0, 0.0)
            tl.store(logits + columns, (slope * factor).to(logits.dtype.element_ty), columns < width)
