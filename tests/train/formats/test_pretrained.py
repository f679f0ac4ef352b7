from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from nanopace.errors import InputError
from nanopace.train.formats.pretrained import only_weights, tied
from nanopace.train.models.weight_shapes import HEAD, POSITIONS, TOKENS, check_said, shape_of, weight_shapes

from ..tiny import SHAPE, tiny_model, tiny_tokens, tiny_weights

PATH = Path("some/ckpt.pt")
FC = "transformer.h.1.mlp.c_fc.weight"


@pytest.mark.parametrize("bias", [True, False])
def test_the_shape_is_read_from_the_weights(bias: bool) -> None:
    shape = replace(SHAPE, bias=bias, dropout=0.25, activation="gelu_tanh")
    weights = tiny_weights(shape).weights
    assert shape_of(PATH, weights, n_head=2, dropout=0.25, activation="gelu_tanh") == shape


def without(name: str) -> Callable[[dict[str, Tensor]], None]:
    def change(weights: dict[str, Tensor]) -> None:
        del weights[name]

    return change


def with_weight(name: str, tensor: object) -> Callable[[dict[str, Tensor]], None]:
    def change(weights: dict[str, Tensor]) -> None:
        weights[name] = tensor  # type: ignore[assignment]

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (without(POSITIONS), "is not a GPT-2: it lacks the tables of tokens and positions"),
        (with_weight(TOKENS, torch.zeros(300)), "is not a GPT-2: it lacks the tables of tokens and positions"),
        (with_weight(POSITIONS, torch.zeros(0, 16)), "is not a GPT-2: it lacks the tables of tokens and positions"),
        (without(FC), f"is not a GPT-2: it has no weight named {FC}"),
        (with_weight(FC, torch.zeros(64, 17)), f"{FC} is 64×17, where a GPT-2 of its size has 64×16"),
        (with_weight("transformer.x", torch.zeros(1)), "is not a GPT-2: it has a weight named transformer.x"),
        (with_weight(FC, "a text"), f"{FC} is not a weight"),
        (with_weight(FC, torch.zeros(64, 16, dtype=torch.int64)), f"{FC} is not a weight"),
        (with_weight(FC, torch.zeros(64, 16).to_sparse()), f"{FC} is not a weight"),
        (with_weight(FC, torch.zeros(64, 16, device="meta")), f"{FC} has fewer values than it claims"),
        (with_weight(TOKENS, torch.zeros(1, 1).expand(1 << 40, 16)), f"{TOKENS} has fewer values than it claims"),
        (with_weight("transformer.h.7.ln_1.weight", torch.zeros(16)), "it has no weight named transformer.h.2.ln_1"),
    ],
)
def test_what_is_no_gpt2_is_told_why(change: Callable[[dict[str, Tensor]], None], said: str) -> None:
    weights = dict(tiny_weights().weights)
    change(weights)
    with pytest.raises(InputError) as raised:
        shape_of(PATH, only_weights(PATH, weights.items()), n_head=2, dropout=0.0)
    assert str(raised.value).startswith("some/ckpt.pt: ")
    assert said in str(raised.value)


def test_a_model_without_layers_is_told_what_it_lacks() -> None:
    weights = {name: each for name, each in tiny_weights().weights.items() if ".h." not in name}
    with pytest.raises(InputError, match=r"no weight named transformer\.h\.0\.ln_1\.weight"):
        shape_of(PATH, weights, n_head=2, dropout=0.0)


@pytest.mark.parametrize("n_head", [None, 0, -2, 3, 32, "2", True, 2.0])
def test_the_number_of_heads_must_be_possible(n_head: object) -> None:
    with pytest.raises(
        InputError, match=r"ckpt\.pt: n_head must divide n_embd: there are .* heads, but the weights are 16 wide"
    ):
        shape_of(PATH, tiny_weights().weights, n_head=n_head, dropout=0.0)


def test_what_a_file_says_is_held_against_its_weights() -> None:
    check_said(PATH, SHAPE, {"n_layer": 2, "bias": None})
    with pytest.raises(InputError, match=r"ckpt\.pt: says n_layer = 12, but its weights have 2"):
        check_said(PATH, SHAPE, {"n_layer": 12})


def test_the_table_and_the_head_are_one() -> None:
    weights = dict(tiny_weights().weights)
    assert tied(PATH, weights)[HEAD] is weights[TOKENS]
    del weights[HEAD]
    assert tied(PATH, weights)[HEAD] is weights[TOKENS]
    weights[HEAD] = weights[TOKENS].clone()
    assert tied(PATH, weights)[HEAD] is weights[TOKENS]
    weights[HEAD] = weights[TOKENS] + 1
    with pytest.raises(InputError, match="differ, but in a GPT-2 they are the same"):
        tied(PATH, weights)
    del weights[TOKENS]
    with pytest.raises(InputError, match=r"it has no weight named transformer\.wte\.weight"):
        tied(PATH, weights)


def test_the_model_answers_as_the_one_that_was_saved() -> None:
    model = tiny_weights().model()
    assert not model.training
    assert model.lm_head.weight is model.transformer["wte"].weight
    assert torch.equal(model.logits(tiny_tokens()), tiny_model().logits(tiny_tokens()))


def test_half_precision_is_computed_in_float32() -> None:
    half = replace(tiny_weights(), weights={name: each.half() for name, each in tiny_weights().weights.items()})
    logits = half.model().logits(tiny_tokens())
    assert logits.dtype == torch.float32
    torch.testing.assert_close(logits, tiny_model().logits(tiny_tokens()), atol=0.02, rtol=0.02)


def test_weights_are_counted_as_nanogpt_counts_them() -> None:
    names = list(weight_shapes(SHAPE))
    assert names[:4] == [TOKENS, POSITIONS, "transformer.h.0.ln_1.weight", "transformer.h.0.ln_1.bias"]
    assert HEAD not in names
