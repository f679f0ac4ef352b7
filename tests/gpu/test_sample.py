"""Sampling on a real card in the requested dtype: `pytest -m gpu tests/gpu/test_sample.py`."""

from __future__ import annotations

import pytest
import torch

from nanopace.train.models.generate import generate, precision
from nanopace.train.models.gpt2 import GPT, ModelShape

CARD = torch.device("cuda", 0)
SHAPE = ModelShape(n_layer=2, n_head=2, n_embd=64, vocab_size=300, block_size=32)
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA card")]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_products_are_in_the_dtype_that_is_asked_for(dtype: str) -> None:
    with CARD:
        model = GPT(SHAPE).eval()
    with precision(CARD, dtype), torch.no_grad():
        assert model.next_logits(torch.tensor([[1, 2]], device=CARD)).dtype == getattr(torch, dtype)
        assert len(list(generate(model, [1, 2], 80))) == 80  # beyond the block, with a cache
    assert not torch.is_autocast_enabled("cuda")
