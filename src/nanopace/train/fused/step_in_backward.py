"""Updates each layer during the backward pass, as soon as its gradient is ready, so only one layer's is in memory.

This is the last step of the memory ladder. It saves 4 bytes per weight, at a price. A step is a single micro-batch. A
gradient is clipped by the part of the total norm known so far: its own layer and all later ones. If the loss is not
finite, nothing changes, as usual; but if only a gradient is not, the layers after it have already been updated.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from nanopace.train.optim.bf16_adamw import Bf16AdamW
from nanopace.train.private_torch import zero_all

if TYPE_CHECKING:
    from nanopace.train.fused.matrix import Matrix


def share_gradients(blocks: nn.ModuleList) -> None:
    """Let all blocks use the first block's gradients, one after the other."""
    first = blocks[0]
    for block in blocks:
        for own, shared in zip(block.parameters(), first.parameters(), strict=True):
            own.grad = shared.grad


class StepInBackward:
    """Clips each layer's gradient and steps with it. Nothing here waits for the device, and all of it can be part of a
    CUDA graph."""

    def __init__(self, optimizer: torch.optim.Optimizer, clip: float, device: torch.device) -> None:
        assert isinstance(optimizer, Bf16AdamW), "no other is updated weight by weight"
        self._optimizer, self._clip = optimizer, clip
        self._frozen, self._norm_square, self._skip = (torch.zeros((), device=device) for _ in range(3))
        optimizer.found_inf = self._skip

    @property
    def norm(self) -> Tensor:
        """The norm of this step's gradients so far, before clipping."""
        return self._norm_square.sqrt()

    @contextmanager
    def weights_frozen(self) -> Iterator[None]:
        """Inside this context, a pass runs as usual, but no weight changes."""
        self._frozen.fill_(1.0)
        try:
            yield
        finally:
            self._frozen.zero_()

    def begin_step(self, loss: Tensor) -> None:
        """Called before the first gradient of a step."""
        self._norm_square.zero_()
        self._skip.copy_(torch.maximum(self._frozen, (~torch.isfinite(loss)).float()))

    @torch.no_grad()
    def update(self, matrices: Collection[Matrix], others: Collection[nn.Parameter] = ()) -> None:
        """Update the weights of these matrices, whose gradients are now complete, and zero the gradients."""
        for each in matrices:
            each.unfold()
        weights = [*(weight for each in matrices for weight in each.weights), *others]
        gradients = [each.grad for each in weights if each.grad is not None]
        self._norm_square += get_total_norm(gradients).square()
        self._skip.copy_(torch.maximum(self._skip, (~torch.isfinite(self._norm_square)).float()))
        if self._clip:
            clip_grads_with_norm_(weights, self._clip, self.norm)
        self._optimizer.update(weights)
        zero_all(gradients + [each.gradient for each in matrices if each.shared])
        for each in matrices:
            each.refresh_copies()
