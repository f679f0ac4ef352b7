"""A matrix of a model as our kernels multiply it.

The weight of a norm scales the columns of the matrix after it: x_hat (W diag(w))^T. That is folded in when the copy is
refreshed, and taken out again before the gradients are used (kernels/fold.py). So a norm needs no weight, and its
backward pass only the norm's output.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from nanopace.train.kernels.fold import fold, unfold
from nanopace.train.kernels.fp8 import FP8, Fp8Weight


class Matrix:
    """A matrix as it is multiplied: a bfloat16 copy, with the weight of the norm before it folded in. Where `fp8` is
    asked for there is one in 8 bits, too, for what a norm gives in 8 bits."""

    def __init__(
        self, weight: nn.Parameter, norm: nn.Parameter | None = None, *, shared: bool = False, fp8: bool = False
    ) -> None:
        self._weight, self._norm = weight, norm
        self.copy = torch.empty_like(weight, dtype=torch.bfloat16)
        self.fp8_weight = Fp8Weight(self.copy) if fp8 else None
        # What the products add to: the weight's own gradient, unless others add to that, too.
        self.gradient = torch.zeros_like(weight) if shared or weight.grad is None else weight.grad
        self.shared = shared

    @property
    def weights(self) -> list[nn.Parameter]:
        """Its own, and the norm's."""
        return [self._weight] if self._norm is None else [self._weight, self._norm]

    @torch.no_grad()
    def refresh_copies(self) -> None:
        if self._norm is None:
            self.copy.copy_(self._weight)
        else:
            fold(self._weight, self._norm, self.copy)
        if self.fp8_weight is not None:
            self.fp8_weight.quantize(self.copy)

    def empty_fp8(self, x: Tensor) -> Tensor | None:
        """For the norm of x, which this is to be multiplied with; None: it is in bfloat16."""
        return None if self.fp8_weight is None else torch.empty_like(x, dtype=FP8)

    def product(self, y: Tensor, y8: Tensor | None = None) -> Tensor:
        """y W^T, by the 8 bits where there are some."""
        if y8 is None:
            return torch.mm(y, self.copy.t())
        assert self.fp8_weight is not None
        return self.fp8_weight.product(y8)

    @torch.no_grad()
    def unfold(self) -> None:
        """Make what was added up the gradients of the weight and of the norm."""
        if self._norm is None:
            return
        assert self._norm.grad is not None
        assert self._weight.grad is not None
        unfold(self._weight, self._norm, self.gradient, self._weight.grad, self._norm.grad, add=self.shared)


def weight_of(module: nn.Module) -> nn.Parameter:
    assert isinstance(module.weight, nn.Parameter)
    return module.weight
