"""What every recipe's model has to do, with and without each of its ingredients."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from nanopace.train.models.gpt2 import KVCache, ModelShape

from ..tiny import FAST, FAST_INGREDIENTS, SHAPE, tiny_model, tiny_tokens

each_shape = pytest.mark.parametrize(
    "shape",
    [
        pytest.param(SHAPE, id="gpt2"),
        pytest.param(FAST, id="fast"),
        *(pytest.param(replace(FAST, without=name), id=f"without {name}") for name in FAST_INGREDIENTS),
    ],
)


@each_shape
@torch.no_grad()
def test_no_token_sees_a_later_one(shape: ModelShape) -> None:
    model, tokens = tiny_model(shape), tiny_tokens(shape)
    changed = tokens.clone()
    changed[:, 7] = (changed[:, 7] + 1) % shape.vocab_size
    before, after = model.logits(tokens), model.logits(changed)
    assert torch.equal(before[:, :7], after[:, :7])
    assert not torch.allclose(before[:, 7], after[:, 7])
    assert not torch.allclose(before[:, 8:], after[:, 8:])  # but every later one sees it


@each_shape
@pytest.mark.parametrize("pieces", [(12,), (1,) * 12, (5, 1, 1, 4, 1), (1, 11)])
@torch.no_grad()
def test_a_cache_changes_nothing(shape: ModelShape, pieces: tuple[int, ...]) -> None:
    """Positions continue where the cache ends."""
    model, tokens = tiny_model(shape), tiny_tokens(shape)
    cache = KVCache(shape, 3, torch.device("cpu"), torch.float32)
    parts = [model.logits(piece, cache) for piece in tokens.split(pieces, dim=1)]
    assert cache.length == 12
    torch.testing.assert_close(torch.cat(parts, dim=1), model.logits(tokens), atol=1e-5, rtol=1e-4)


@torch.no_grad()
def test_a_cache_that_starts_over_knows_nothing_of_before() -> None:
    model, tokens = tiny_model(FAST), tiny_tokens(FAST)
    cache = KVCache(FAST, 3, torch.device("cpu"), torch.float32)
    model.logits(tokens, cache)
    cache.length = 0
    torch.testing.assert_close(model.logits(tokens[:, 5:], cache), model.logits(tokens[:, 5:]), atol=1e-4, rtol=1e-4)


def test_more_tokens_than_positions_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(AssertionError, match="more tokens than block_size"):
        tiny_model().logits(torch.zeros(1, 13, dtype=torch.long))


@each_shape
@torch.no_grad()
def test_the_loss_is_the_cross_entropy_of_the_logits(shape: ModelShape) -> None:
    model, tokens = tiny_model(shape), tiny_tokens(shape)
    targets = tokens.roll(-1, 1)
    logits = model.logits(tokens)
    by_hand = -torch.log_softmax(logits, -1).gather(-1, targets[..., None])[..., 0]
    torch.testing.assert_close(model(tokens, targets), by_hand.mean())
    torch.testing.assert_close(model.sequence_losses(tokens, targets), by_hand.mean(dim=1))
    assert by_hand.mean(dim=1).std() > 0.01  # so that one mean for all would not do
    torch.testing.assert_close(model.next_logits(tokens), logits[:, -1])
    targets[:, 6:] = -1  # these do not count
    torch.testing.assert_close(model(tokens, targets), by_hand[:, :6].mean())


@pytest.mark.parametrize("shape", [SHAPE, FAST])
def test_dropout_is_for_training_alone(shape: ModelShape) -> None:
    model, tokens = tiny_model(replace(shape, dropout=0.5)), tiny_tokens(shape)
    assert torch.equal(model.logits(tokens), model.logits(tokens))
    model.train()
    assert not torch.equal(model.logits(tokens), model.logits(tokens))
