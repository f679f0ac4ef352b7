from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch.nn.functional import gelu

from nanopace.hardware.flops import parameters
from nanopace.train.models.gpt2 import GPT, ModelShape
from nanopace.train.plan.origin import build_model

from ..tiny import SHAPE, tiny_model, tiny_tokens

WIDE = ModelShape(n_layer=6, n_head=4, n_embd=128, vocab_size=512, block_size=32, bias=True)


@pytest.fixture(scope="module")
def fresh() -> GPT:
    torch.manual_seed(3)
    return GPT(WIDE).eval()


def test_initial_weights_have_gpt2_s_spread(fresh: GPT) -> None:
    for name, weight in fresh.named_parameters():
        if weight.dim() == 2:
            residual = name.endswith("c_proj.weight")  # 12 of them add up in the residual stream
            expected = 0.02 / math.sqrt(12) if residual else 0.02
            assert weight.std().item() == pytest.approx(expected, rel=0.03), name
            assert abs(weight.mean().item()) < 5 * expected / math.sqrt(weight.numel()), name
        else:
            assert torch.equal(weight, torch.full_like(weight, float("bias" not in name))), name


def test_a_fresh_model_knows_nothing(fresh: GPT) -> None:
    """Its loss is that of a uniform guess, plus half the variance of its logits."""
    tokens = tiny_tokens(WIDE, batch=16)
    with torch.no_grad():
        spread = fresh.logits(tokens).var().item()
        loss = fresh(tokens, tokens.flip(1)).item()
    assert spread < 0.1
    assert loss == pytest.approx(math.log(512) + spread / 2, abs=0.05)


def test_the_same_seed_gives_the_same_weights() -> None:
    made = []
    for _ in range(2):
        torch.manual_seed(5)
        made.append(GPT(SHAPE).state_dict())
    assert all(torch.equal(each, made[1][name]) for name, each in made[0].items())


@pytest.mark.parametrize("bias", [True, False])
def test_it_has_nanogpt_s_number_of_parameters(bias: bool) -> None:
    shape = replace(WIDE, bias=bias)
    model = GPT(shape)
    assert model.parameter_count() == parameters(6, 128, 512, bias=bias)
    assert sum(each.numel() for each in model.parameters()) == parameters(6, 128, 512, 32, bias=bias)


def test_the_head_is_the_table_of_tokens(fresh: GPT) -> None:
    assert fresh.lm_head.weight is fresh.transformer["wte"].weight


@torch.no_grad()
def test_gelu_is_exact_unless_tanh_is_asked_for() -> None:
    exact, approximate = tiny_model().transformer["h"][0].mlp, tiny_model(replace(SHAPE, activation="gelu_tanh"))
    approximate = approximate.transformer["h"][0].mlp
    x = torch.randn(4, 16)
    inner = exact.c_fc(x)
    torch.testing.assert_close(exact(x), exact.c_proj(inner * 0.5 * (1 + torch.erf(inner / math.sqrt(2)))))
    torch.testing.assert_close(approximate(x), exact.c_proj(gelu(inner, approximate="tanh")))
    assert not torch.equal(exact(x), approximate(x))


def test_a_model_drawn_piece_by_piece_is_the_same_model() -> None:
    """As sharded ranks draw it, none of which has room for all of it."""
    shape = ModelShape(n_layer=2, n_head=2, n_embd=16, vocab_size=32, block_size=8, bias=True)
    drawn = []
    for piecewise in (False, True):
        torch.manual_seed(7)
        drawn.append(build_model(shape, None, torch.device("cpu"), piecewise=piecewise).state_dict())
    assert drawn[0].keys() == drawn[1].keys()
    assert all(torch.equal(drawn[0][name], drawn[1][name]) for name in drawn[0])
