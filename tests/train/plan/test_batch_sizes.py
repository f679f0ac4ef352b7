"""How many sequences to process at once, and why."""

from __future__ import annotations

import pytest
import torch

from nanopace.train.models.gpt2 import ModelShape
from nanopace.train.plan.batch_sizes import pick_eval_batch


@pytest.mark.parametrize(
    ("batch_size", "expected", "why"),
    [
        (96, 96, "as in training"),
        (32, 64, "more would not make the card any faster"),
        (8, 17, "as many as fit where training keeps its activations"),
        (1, 2, "as many as fit where training keeps its activations"),
    ],
)
def test_a_card_is_filled_while_it_evaluates(batch_size: int, expected: int, why: str) -> None:
    gpt2 = ModelShape(n_layer=12, n_head=12, n_embd=768, vocab_size=50304, block_size=1024)
    assert pick_eval_batch(gpt2, batch_size, torch.device("cuda")) == (expected, why)
    assert pick_eval_batch(gpt2, batch_size, torch.device("cpu"))[0] == batch_size
