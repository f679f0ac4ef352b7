"""The head's kernel with capped logits; test_head.py covers uncapped ones."""

from __future__ import annotations

import pytest
import torch

from nanopace.train.kernels.head import head_gradients, head_losses, plain_head_loss

from .conftest import LIMITS, Draw, error

CAP = 15.0


@pytest.mark.parametrize("vocabulary", [50, 5000])  # less than a block, and more than two
@pytest.mark.parametrize("scale", [1.0, 40.0])  # almost nothing is capped, or almost everything
def test_it_is_its_twin(draw: Draw, vocabulary: int, scale: float) -> None:
    x, weight = draw(5, 24), draw(vocabulary, 24, scale=scale / 5)
    targets = torch.tensor([3, 49, -1, 0, 7], device=x.device)
    leaves = x.clone().requires_grad_(), weight.clone().requires_grad_()
    expected = plain_head_loss(*leaves, targets, CAP)
    (0.5 * expected).backward()
    gradient = torch.zeros_like(weight)
    loss, d_x = head_gradients(x, weight, gradient, targets, 0.5, CAP)
    torch.testing.assert_close(loss, expected.detach(), atol=1e-5, rtol=1e-5)
    for found, leaf in zip((d_x, gradient), leaves, strict=True):
        assert leaf.grad is not None
        assert error(found, leaf.grad) < 10 * LIMITS[torch.float32]
    assert abs(float(loss - plain_head_loss(x, weight, targets))) > 1e-3  # so the cap has an effect
    losses = head_losses(x, weight, targets, CAP)
    torch.testing.assert_close(losses.sum() / 4, expected.detach(), atol=1e-5, rtol=1e-5)


def test_logits_beyond_every_bound_are_finite(draw: Draw) -> None:
    weight = draw(50, 24, scale=1e4)
    x, gradient = draw(3, 24), torch.zeros_like(weight)
    loss, d_x = head_gradients(x, weight, gradient, torch.tensor([0, 1, 2], device=x.device), 1.0, CAP)
    assert 0 <= float(loss) <= 2 * CAP + 4
    assert all(bool(torch.isfinite(each).all()) for each in (d_x, gradient))
