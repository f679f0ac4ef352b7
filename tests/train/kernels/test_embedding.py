from __future__ import annotations

import pytest
import torch
from torch import Tensor

from nanopace.train.kernels.embedding import embed, embed_backward, plain_embed
from nanopace.train.kernels.segments import sort_tokens

from .conftest import LIMITS, Draw, error

VOCABULARY, WIDTH, LENGTH = 11, 40, 6


@pytest.fixture
def tokens(device: torch.device) -> Tensor:
    """Windows are one token longer, so rows are not contiguous; and most tokens repeat."""
    windows = torch.randint(0, VOCABULARY - 1, (3, LENGTH + 1), generator=torch.Generator().manual_seed(1)).to(device)
    windows[1, :3] = windows[0, 0]
    assert not windows[:, :-1].is_contiguous()
    return windows[:, :-1]


def test_it_is_its_twin(draw: Draw, tokens: Tensor) -> None:
    """With more positions than the sequences have."""
    table, positions = draw(VOCABULARY, WIDTH), draw(LENGTH + 2, WIDTH)
    x = embed(tokens, table, positions)
    assert x.dtype == torch.bfloat16
    assert error(x, plain_embed(tokens, table, positions)) < LIMITS[torch.bfloat16]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_way_back_is_its_twin_s(draw: Draw, tokens: Tensor, dtype: torch.dtype) -> None:
    """It adds to existing gradients."""
    slope = draw(tokens.numel(), WIDTH, dtype=dtype)
    leaves = [draw(VOCABULARY, WIDTH).requires_grad_(), draw(LENGTH + 2, WIDTH).requires_grad_()]
    before = draw(VOCABULARY, WIDTH), draw(LENGTH + 2, WIDTH)
    plain_embed(tokens, *leaves).backward(slope.bfloat16())
    gradients = before[0].clone(), before[1].clone()
    embed_backward(slope.bfloat16().to(dtype), tokens, sort_tokens(tokens), *gradients)
    for gradient, leaf, was in zip(gradients, leaves, before, strict=True):
        assert error(gradient, was + leaf.grad) < 1e-6  # added up in float32
    assert torch.equal(gradients[0][-1], before[0][-1])  # a token that never comes
    assert torch.equal(gradients[1][LENGTH:], before[1][LENGTH:])


def test_one_token_everywhere_gets_every_gradient(draw: Draw, tokens: Tensor) -> None:
    """All programs add to the same row."""
    same, slope = torch.full_like(tokens, 4), draw(tokens.numel(), WIDTH)
    gradients = torch.zeros_like(draw(VOCABULARY, WIDTH)), torch.zeros_like(draw(LENGTH, WIDTH))
    embed_backward(slope, same, sort_tokens(same), *gradients)
    torch.testing.assert_close(gradients[0][4], slope.sum(0))
    assert gradients[0].count_nonzero() == WIDTH
    torch.testing.assert_close(gradients[1], slope.view(*same.shape, WIDTH).sum(0))
