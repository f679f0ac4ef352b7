from __future__ import annotations

import pytest
import torch

from nanopace.train.kernels.segments import sort_tokens
from nanopace.train.kernels.value_embeddings import (
    add_value_embeddings,
    add_value_embeddings_backward,
    plain_add_value_embeddings,
)

from .conftest import LIMITS, Draw, error

HEADS, HEAD = 3, 10
WIDTH = HEADS * HEAD


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_it_is_its_twin_and_so_is_the_way_back(draw: Draw, dtype: torch.dtype) -> None:
    """A token that occurs twice is added to twice, and existing gradients are kept."""
    packed, d_packed = draw(6, 3 * WIDTH, dtype=dtype), draw(6, 3 * WIDTH, dtype=dtype)
    table, gate = draw(9, WIDTH), draw(HEADS)
    tokens = torch.tensor([[3, 5, 3, 0], [1, 3, 8, 2]], device=table.device)[:, :-1]  # not in a row, as windows are
    leaves = table.clone().requires_grad_(), gate.clone().requires_grad_()
    plain_add_value_embeddings(packed.float(), tokens, *leaves).backward(d_packed.float())
    expected = plain_add_value_embeddings(packed, tokens, table, gate)
    add_value_embeddings(packed, tokens, table, gate)
    assert error(packed, expected) < LIMITS[dtype]
    assert torch.equal(packed[:, : 2 * WIDTH], expected[:, : 2 * WIDTH])
    before, d_table, d_gate = d_packed.clone(), torch.ones_like(table), torch.ones_like(gate)
    add_value_embeddings_backward(d_packed, sort_tokens(tokens), table, gate, d_table, d_gate)
    assert torch.equal(d_packed, before)
    for leaf, found in zip(leaves, (d_table, d_gate), strict=True):
        assert leaf.grad is not None
        assert error(found - 1, leaf.grad) < LIMITS[torch.float32]
