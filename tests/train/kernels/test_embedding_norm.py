from __future__ import annotations

import pytest
import torch
from torch import Tensor

from nanopace.train.kernels.embedding import embed_norm, embed_norm_backward, plain_embed_norm
from nanopace.train.kernels.segments import sort_tokens

from .conftest import LIMITS, Draw, error

WIDTH = 33


def some_tokens(device: torch.device) -> Tensor:
    """Windows without their last token, with one token more than once."""
    return torch.tensor([[3, 5, 3, 0], [1, 3, 8, 2]], device=device)[:, :-1]


@pytest.mark.parametrize("placed", [True, False])
def test_it_is_its_twin_and_so_is_the_way_back(draw: Draw, placed: bool) -> None:
    table, positions = draw(9, WIDTH), draw(5, WIDTH)
    tokens, d_x = some_tokens(table.device), draw(6, WIDTH)
    leaves = table.clone().requires_grad_(), positions.clone().requires_grad_()
    expected = plain_embed_norm(tokens, leaves[0], leaves[1] if placed else None)
    x, factors = embed_norm(tokens, table, positions if placed else None)
    assert x.dtype == torch.bfloat16
    assert error(x, expected) < LIMITS[torch.bfloat16]
    expected.backward(d_x.to(torch.bfloat16))
    d_table, d_positions = torch.ones_like(table), torch.ones_like(positions)
    embed_norm_backward(d_x, x, factors, tokens, sort_tokens(tokens), d_table, d_positions if placed else None)
    for leaf, found, counts in ((leaves[0], d_table, True), (leaves[1], d_positions, placed)):
        if counts:
            assert leaf.grad is not None
            assert error(found - 1, leaf.grad) < 2 * LIMITS[torch.bfloat16]
        else:
            assert bool((found == 1).all())
