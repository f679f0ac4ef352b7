"""A model's matrix in the form our kernels multiply.

A norm's weight scales the columns of the matrix after it: x_hat (W diag(w))^T. It is folded in when the copy is
refreshed, and taken out of the gradients before they are used (kernels/fold.py). So a norm needs no weight, and its
backward pass needs only the norm's output.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from nanopace.train.kernels.fold import fold, unfold
from nanopace.train.kernels.fp8 import FP8, FP8_GRADIENT, Fp8Weight


class Away(NamedTuple):
    """Where the copy and the gradient of a matrix are that is itself in the host's memory."""

    copy: torch.device
    gradient: torch.device


class Matrix:
    """A bfloat16 copy of a matrix, with the preceding norm's weight folded in. There may also be copies in 8 bits: with
    `fp8_forward` for norm outputs, with `fp8_backward` for gradients in 8 bits.

    With `away`, the weight itself is in the host's memory (train/host), and whoever brings it to the card passes it to
    `unfold` and `copy_rows`. Its copy and its gradient are on the card, or on the meta device if they come and go."""

    def __init__(
        self,
        weight: nn.Parameter,
        norm: nn.Parameter | None = None,
        *,
        shared: bool = False,
        away: Away | None = None,
        fp8_forward: bool = False,
        fp8_backward: bool = False,
    ) -> None:
        self._weight, self._norm = weight, norm
        self.away = away is not None
        self.gradient_stays = away is None or away.gradient.type != "meta"
        self.copy = torch.empty_like(weight, dtype=torch.bfloat16, device=None if away is None else away.copy)
        self.fp8_weight = (
            Fp8Weight(self.copy, forward=fp8_forward, backward=fp8_backward) if fp8_forward or fp8_backward else None
        )
        # The products add to this: the weight's own gradient, unless others add to that as well.
        if away is not None:
            self.gradient = torch.zeros_like(weight, device=away.gradient)
        else:
            self.gradient = torch.zeros_like(weight) if shared or weight.grad is None else weight.grad
        self.shared = shared

    @property
    def weights(self) -> list[nn.Parameter]:
        """Its own weight, and the norm's."""
        return [self._weight] if self._norm is None else [self._weight, self._norm]

    @property
    def norm(self) -> nn.Parameter | None:
        return self._norm

    def refresh_copies(self) -> None:
        self.copy_rows(self._weight)

    @torch.no_grad()
    def copy_rows(self, weight: Tensor, first: int = 0) -> None:
        """Refresh the copies of these rows of the weight, the last ones at the end."""
        self.copy_into(self.copy[first : first + len(weight)], weight)
        if self.fp8_weight is not None and first + len(weight) == len(self.copy):
            self.fp8_weight.quantize(self.copy)

    def copy_into(self, copy: Tensor, weight: Tensor) -> None:
        """The copy of some rows of the weight."""
        if self._norm is None:
            copy.copy_(weight)
        else:
            fold(weight, self._norm, copy)

    def empty_fp8(self, x: Tensor) -> Tensor | None:
        """An 8-bit buffer for the norm of x, to be multiplied by this matrix; None if it stays in bfloat16."""
        return torch.empty_like(x, dtype=FP8) if self.fp8_weight is not None and self.fp8_weight.has_forward else None

    def product(self, y: Tensor, y8: Tensor | None = None) -> Tensor:
        """y W^T, in 8 bits if `y8` is given."""
        if y8 is None:
            return torch.mm(y, self.copy.t())
        assert self.fp8_weight is not None
        return self.fp8_weight.product(y8)

    def empty_fp8_gradient(self, rows: int) -> Tensor | None:
        """An 8-bit buffer for the gradient of this matrix's product; None if it stays in bfloat16."""
        if self.fp8_weight is None or not self.fp8_weight.has_backward:
            return None
        return torch.empty((rows, len(self.copy)), device=self.copy.device, dtype=FP8_GRADIENT)

    def input_gradient(self, d: Tensor, d8: Tensor | None, scale: Tensor | None) -> Tensor:
        """d W; in 8 bits if `d8` is given: d divided by `scale`."""
        if d8 is None or scale is None:
            return torch.mm(d, self.copy)
        assert self.fp8_weight is not None
        return self.fp8_weight.input_gradient(d8, scale)

    @torch.no_grad()
    def unfold(self) -> None:
        """Turn the accumulated gradient into those of the weight and of the norm."""
        if self._norm is not None:
            assert self._norm.grad is not None
            assert self._weight.grad is not None
            unfold(self._weight, self._norm, self.gradient, self._weight.grad, self._norm.grad, add=self.shared)

    @torch.no_grad()
    def unfold_away(self, weight: Tensor, gradient: Tensor) -> None:
        """The same, with the weight and its gradient as they are on the card now."""
        assert self._norm is not None
        assert self._norm.grad is not None
        unfold(weight, self._norm, gradient, gradient, self._norm.grad, add=False)


def weight_of(module: nn.Module) -> nn.Parameter:
    assert isinstance(module.weight, nn.Parameter)
    return module.weight
