"""The model of recipe `fast`, with and without each of its ingredients."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from nanopace.hardware.flops import parameters
from nanopace.train.models.fast import (
    CAP,
    VALUE_TABLES,
    FastGPT,
    apply_rope,
    queries_and_keys,
    relu_squared,
    residual_norm,
    rms_norm,
    rope_angles,
    rotating,
    shift_keys,
    shifts_keys,
    soft_cap,
    without_own_value,
)
from nanopace.train.models.gpt2 import INITIAL_STD

from ..tiny import FAST, FAST_INGREDIENTS, tiny_model, tiny_tokens


@pytest.mark.parametrize("without", FAST_INGREDIENTS)
def test_every_ingredient_is_in_it_or_not(without: str) -> None:
    """Leaving one out gives other weights, or other logits from the same weights."""
    torch.manual_seed(0)
    full, less = FastGPT(FAST).state_dict(), FastGPT(replace(FAST, without=without)).state_dict()
    full_model, less_model = tiny_model(FAST), tiny_model(replace(FAST, without=without))
    same = {name: each.shape for name, each in full.items()} == {name: each.shape for name, each in less.items()}
    assert same == (without in ("qk_norm", "relu2", "soft_cap", "key_shift"))
    if same:
        less_model.load_state_dict(full_model.state_dict())
        tokens = tiny_tokens(FAST)
        assert not torch.allclose(full_model.logits(tokens), less_model.logits(tokens), atol=1e-3)


@torch.no_grad()
def test_it_begins_near_an_even_guess() -> None:
    """Like GPT-2: logits start with a standard deviation of 0.02 times the root of its width."""
    torch.manual_seed(0)
    tokens = tiny_tokens(FAST, batch=16)
    uneven = (INITIAL_STD**2 * FAST.n_embd) / 2
    assert FastGPT(FAST)(tokens, tokens.flip(1)).item() == pytest.approx(math.log(300) + uneven, abs=0.02)


def test_its_first_gradient_reaches_every_weight_behind_a_branch_that_is_not_zero() -> None:
    torch.manual_seed(0)
    model = tiny_model(FAST)
    model(tiny_tokens(FAST), tiny_tokens(FAST).roll(-1, 1)).backward()
    assert all(each.grad is not None and bool(each.grad.any()) for each in model.parameters())


@pytest.mark.parametrize(
    ("n_layer", "layers"), [(1, {0}), (2, {0, 1}), (3, {0, 2}), (4, {0, 1, 2, 3}), (12, {0, 1, 10, 11})]
)
def test_tables_of_values_are_few_and_outside(n_layer: int, layers: set[int]) -> None:
    model = FastGPT(replace(FAST, n_layer=n_layer))
    assert 1 <= len(model.transformer["wve"]) <= VALUE_TABLES  # type: ignore[arg-type]
    blocks = model.transformer["h"]
    gated = {layer for layer in range(n_layer) if blocks[layer].attn.value_gate is not None}  # type: ignore[index]
    assert gated == layers


def test_parameters_are_those_that_are_multiplied() -> None:
    norms = 5 * 2 * 16 + 16
    assert FastGPT(FAST).parameter_count() == parameters(5, 16, 300) - norms


def test_the_compiler_takes_it_whole() -> None:
    """One graph, and the same numbers: nothing in it syncs with the host."""
    model, tokens = tiny_model(FAST), tiny_tokens(FAST)
    for call in (model, model.sequence_losses):
        compiled = torch.compile(call, dynamic=False, fullgraph=True, backend="eager")  # type: ignore[call-overload]
        torch.testing.assert_close(compiled(tokens, tokens), call(tokens, tokens))


def test_under_autocast_products_are_bfloat16_and_the_stream_is_not() -> None:
    model, tokens = tiny_model(FAST), tiny_tokens(FAST)
    block = model.transformer["h"][1]  # type: ignore[index]
    seen: dict[str, torch.dtype] = {}

    def watch(name: str) -> object:
        def hook(_: object, __: object, out: Tensor) -> None:
            seen[name] = out.dtype

        return hook

    for name, module in (
        ("stream", block),
        ("attn", block.attn.c_attn),
        ("mlp", block.mlp.c_proj),
        ("head", model.lm_head),
    ):
        module.register_forward_hook(watch(name))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(tokens, tokens)
    assert seen == {"stream": torch.float32, **dict.fromkeys(("attn", "mlp", "head"), torch.bfloat16)}
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, model(tokens, tokens), rtol=0.05, atol=0.05)


# --- the arithmetic --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("half", [False, True])
def test_what_two_tokens_are_to_each_other_depends_on_their_distance_alone(half: bool) -> None:
    q, k = torch.randn(2, 1, 1, 1, 1, 8, generator=torch.Generator().manual_seed(0))

    def product(a: int, b: int) -> Tensor:
        turned = (apply_rope(x, *rope_angles(torch.tensor([at]), 8, half=half)) for x, at in ((q, a), (k, b)))
        return torch.stack([*turned]).prod(0).sum()

    torch.testing.assert_close(product(3, 1), product(903, 901), atol=1e-4, rtol=1e-4)
    assert not torch.allclose(product(3, 1), product(3, 2), atol=1e-3)
    torch.testing.assert_close(product(5, 5), (q * k).sum())


def test_norms() -> None:
    x, branch = torch.randn(2, 3, 5, 16)
    total, normed = residual_norm(x, branch)
    assert torch.equal(total, x + branch)
    torch.testing.assert_close(normed, total / total.square().mean(-1, keepdim=True).sqrt())
    torch.testing.assert_close(rms_norm(100 * x), rms_norm(x))
    packed = torch.randn(2, 12, 3, 2, 8)
    both = queries_and_keys(packed, rope_angles(torch.arange(12), 8, half=False), normed=True)
    assert both.shape == (2, 12, 2, 2, 8)
    torch.testing.assert_close(both.square().mean(-1), torch.ones(2, 12, 2, 2))  # turning keeps lengths
    assert torch.equal(queries_and_keys(packed, None, normed=False), packed[:, :, :2])


def test_half_of_a_head_stands_still() -> None:
    for width, moving in ((8, 2), (6, 2), (2, 1), (128, 32)):
        cos, sin = rope_angles(torch.tensor([1]), width, half=True)
        assert rotating(width) == moving
        assert bool(((sin != 0) == (torch.arange(width // 2) < moving)).all())
        assert bool((cos[sin == 0] == 1).all())
    slowest = rope_angles(torch.tensor([1]), 128, half=True)[1][0, 31]
    assert slowest.asin().item() == pytest.approx(1 / 1024, rel=1e-3)


def test_keys_that_stand_still_are_the_token_before_s() -> None:
    k = torch.arange(3.0)[None, :, None, None] + torch.arange(8) / 10
    shifted = shift_keys(k)
    for column in range(8):
        tokens = [0, 0, 1] if column in (2, 3, 6, 7) else [0, 1, 2]
        assert torch.equal(shifted[0, :, 0, column], k[0, tokens, 0, column])
    later = shift_keys(k[:, 2:], before=k[:, 1:2])
    assert torch.equal(later, shifted[:, 2:])


@pytest.mark.parametrize(("n_layer", "layers"), [(1, [0]), (3, [2]), (6, [3]), (12, [3, 7, 11])])
def test_which_layers_shift_keys(n_layer: int, layers: list[int]) -> None:
    assert [layer for layer in range(n_layer) if shifts_keys(layer, n_layer)] == layers


def test_a_token_s_own_value_is_taken_out_of_what_it_attends_to() -> None:
    y, v = torch.randn(2, 3, 5, 2, 4, generator=torch.Generator().manual_seed(0))
    share = torch.tensor([0.0, 20.0])  # none of it, and all
    without = without_own_value(y, v, share)
    torch.testing.assert_close(without[..., 0, :], y[..., 0, :])
    torch.testing.assert_close((without * v).sum(-1)[..., 1], torch.zeros(3, 5), atol=1e-5, rtol=0)
    part = without_own_value(y, v, torch.full((2,), 0.5493))  # the tanh of it is a half
    torch.testing.assert_close((part * v).sum(-1), (y * v).sum(-1) / 2, atol=1e-4, rtol=1e-3)
    assert without_own_value(y, 0 * v, share).isfinite().all()


def test_logits_are_capped_softly() -> None:
    logits = torch.tensor([-1e4, -1.0, 0.0, 0.1, 1e4])
    assert soft_cap(logits).tolist() == pytest.approx([-CAP, -0.9985, 0.0, 0.1, CAP], abs=1e-4)
    assert soft_cap(logits.bfloat16()).dtype == torch.float32


def test_relu_squared() -> None:
    assert relu_squared(torch.tensor([-2.0, 0.0, 3.0])).tolist() == [0.0, 0.0, 9.0]
