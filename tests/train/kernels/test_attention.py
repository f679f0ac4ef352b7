from __future__ import annotations

import pytest
import torch
from torch import Tensor

from nanopace.train.kernels import attention
from nanopace.train.kernels.attention import Tile, attention_backward, plain_attention_backward

from .conftest import LIMITS, Draw, error

SCALE, HEAD = 0.3, 16
WIDE, TALL = Tile(32, 16, 4, 2), Tile(16, 32, 4, 2)


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention, "TILES", {HEAD: (WIDE, TALL)})


def some(draw: Draw, length: int, head: int = HEAD) -> tuple[list[Tensor], Tensor, Tensor, Tensor]:
    """Queries, keys and values, as they lie in rows of all three; attention's gradient, output and sums."""
    q_k_v = [each.transpose(1, 2) for each in draw(2, length, 3, 3, head).unbind(2)]
    q, k, v = q_k_v
    later = torch.ones((length, length), dtype=torch.bool, device=q.device).triu(1)
    scores = (q @ k.mT * SCALE).masked_fill(later, float("-inf"))
    out = (scores.softmax(-1) @ v).transpose(1, 2).contiguous().transpose(1, 2)
    return q_k_v, draw(2, length, 3, head).transpose(1, 2), out, scores.logsumexp(-1)


@pytest.mark.parametrize("length", [64, 37, 3])
@pytest.mark.parametrize("tiles", [(WIDE, WIDE), (TALL, TALL)])
def test_it_is_its_twin(draw: Draw, monkeypatch: pytest.MonkeyPatch, tiles: tuple[Tile, Tile], length: int) -> None:
    """Whether the blocks are whole, and whether those of queries are larger than those of keys."""
    monkeypatch.setattr(attention, "TILES", {HEAD: tiles})
    q_k_v, d_out, out, sums = some(draw, length)
    before = [each.clone() for each in (*q_k_v, d_out, out, sums)]
    found = attention_backward(d_out, q_k_v, out, sums, SCALE)
    for one, other in zip(found, plain_attention_backward(q_k_v, d_out, SCALE), strict=True):
        assert error(one, other) < LIMITS[torch.bfloat16 if one.is_cuda else torch.float32]  # a card multiplies in TF32
    assert all(torch.equal(a, b) for a, b in zip(before, (*q_k_v, d_out, out, sums), strict=True))


def test_gradients_may_lie_otherwise_than_the_output(draw: Draw) -> None:
    """Heads first, or tokens in the innermost dimension; sums may have one dimension more, as cuDNN's. Keys may lie
    elsewhere, as those that are shifted do."""
    q_k_v, d_out, out, sums = some(draw, 20)
    expected = attention_backward(d_out, q_k_v, out, sums, SCALE)
    for other in (d_out.contiguous(), d_out.mT.contiguous().mT):
        q, k, v = q_k_v
        found = attention_backward(other, (q, k.contiguous(), v), out.contiguous(), sums.unsqueeze(-1), SCALE)
        assert all(torch.equal(a, b) for a, b in zip(expected, found, strict=True))


def test_a_shape_without_tiles_is_refused(draw: Draw) -> None:
    q_k_v, d_out, out, sums = some(draw, 4, head=10)
    with pytest.raises(RuntimeError, match="no kernel for this shape"):
        attention_backward(d_out, q_k_v, out, sums, SCALE)
    q_k_v, d_out, out, sums = some(draw, 4)
    with pytest.raises(RuntimeError, match="no kernel for this shape"):
        attention_backward(d_out, [q_k_v[0].contiguous(), *q_k_v[1:]], out, sums, SCALE)
