"""The head and the cross entropy, some thousand tokens at a time: their logits are overwritten with their gradient.

So the logits of a whole micro-batch never exist: for GPT-2 they are the largest thing in memory. By the time the loss
is known, its gradient is, too.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn import functional

from nanopace.train.kernels.linear import accumulate

CHUNK_BYTES = 1 << 29  # of logits: enough rows to fill the largest card, little beside the activations
_BLOCK = 2048
_LOWEST = -1e30  # as good as minus infinity, and its difference to itself is a number


def plain_head_loss(x: Tensor, weight: Tensor, targets: Tensor, cap: float | None = None) -> Tensor:
    """The mean loss. The twin of `head_gradients`; logits are within `cap` of 0, softly, if there is one."""
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
    x: Tensor, weight: Tensor, gradient: Tensor, targets: Tensor, share: float, cap: float | None = None
) -> tuple[Tensor, Tensor]:
    """The mean loss and d_x, both gradients those of `share` times the loss; the weight's is added to `gradient`."""
    losses = torch.empty(len(x), device=x.device, dtype=torch.float32)
    counted = (targets >= 0).sum()
    d_x = torch.empty_like(x)
    for some in _chunks(x, weight):
        logits = torch.mm(x[some], weight.t())
        cross_entropy(logits, targets[some], losses[some], counted, share, cap)
        torch.mm(logits, weight, out=d_x[some])
        accumulate(gradient, logits, x[some])
        del logits  # before the next are made
    return losses.sum() / counted, d_x


def _chunks(x: Tensor, weight: Tensor) -> list[slice]:
    """Equal stretches of rows, a multiple of 128, each with about as many logits as are allowed at a time."""
    count = triton.cdiv(len(x) * len(weight) * x.element_size(), CHUNK_BYTES)
    rows = triton.cdiv(triton.cdiv(len(x), count), 128) * 128
    return [slice(first, min(first + rows, len(x))) for first in range(0, len(x), rows)]


def cross_entropy(
    logits: Tensor, targets: Tensor, losses: Tensor, counted: Tensor | None, share: float, cap: float | None
) -> None:
    """The loss of each row. Where tokens are counted, logits become the gradient of `share` times the mean loss."""
    rows, width = logits.shape
    _kernel[(rows,)](
        logits,
        targets,
        losses,
        counted,
        share,
        width,
        BACKWARD=counted is not None,
        CAP=cap or 0.0,
        LOWEST=_LOWEST,
        BLOCK=_BLOCK,
        num_warps=8,
    )


@triton.jit
def _kernel(
    logits, targets, losses, counted, share, width,
    BACKWARD: tl.constexpr, CAP: tl.constexpr, LOWEST: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    logits += row * width
    target = tl.load(targets + row)
    top = tl.full([BLOCK], LOWEST, tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    for first in range(0, width, BLOCK):
        columns = first + tl.arange(0, BLOCK)
        value = tl.load(logits + columns, columns < width, LOWEST).to(tl.float32)
        if CAP > 0:  # none is so large that its exponential is, so there is nothing to be relative to
            total += tl.where(columns < width, tl.exp(CAP * _tanh(value / CAP)), 0.0)
        else:
            smaller = tl.exp(-tl.abs(value - top))  # of the two, relative to the larger
            total = tl.where(value > top, total * smaller + 1, total + smaller)
            top = tl.maximum(top, value)
    if CAP > 0:
        logarithm = tl.log(tl.sum(total, 0))
    else:
        highest = tl.max(top, 0)
        logarithm = highest + tl.log(tl.sum(total * tl.exp(top - highest), 0))
    counts = target >= 0
    chosen = tl.load(logits + tl.where(counts, target, 0)).to(tl.float32)
    if CAP > 0:
        chosen = CAP * _tanh(chosen / CAP)
    tl.store(losses + row, tl.where(counts, logarithm - chosen, 0.0))
    if BACKWARD:
        tl.debug_barrier()  # the chosen logit is read before it is overwritten
        factor = tl.where(counts, share / tl.load(counted).to(tl.float32), 0.0)
        for first in range(0, width, BLOCK):
            columns = first + tl.arange(0, BLOCK)
            value = tl.load(logits + columns, columns < width, LOWEST).to(tl.float32)
            bend = 1.0
            if CAP > 0:
                value = _tanh(value / CAP)
                bend = 1 - value * value
                value *= CAP
            slope = (tl.exp(value - logarithm) - tl.where(columns == target, 1.0, 0.0)) * bend
            tl.store(logits + columns, (slope * factor).to(logits.dtype.element_ty), columns < width)


@triton.jit
def _tanh(x):
    """To 1e-7, which is nothing beside a bfloat16 logit; and by an exponential, which every version has."""
    small = tl.exp(-2 * tl.abs(x))
    share = (1 - small) / (1 + small)
    return tl.where(x < 0, -share, share)
