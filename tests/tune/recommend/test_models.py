"""What people call a model, and what is not one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanopace.errors import UsageError
from nanopace.tune.recommend.models import NAMED, Model, find_model


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("gpt2", "gpt2"),
        ("GPT-2", "gpt2"),
        ("124M", "gpt2"),
        ("gpt2-medium", "gpt2-medium"),
        ("gpt2_medium", "gpt2-medium"),
        ("350m", "gpt2-medium"),
        (" 774M ", "gpt2-large"),
        ("1.5B", "gpt2-xl"),
    ],
)
def test_names(text: str, name: str) -> None:
    assert find_model(text) is NAMED[name]


def test_sizes_are_those_of_nanogpt() -> None:
    assert [round(model.parameters / 1e6, 1) for model in NAMED.values()] == [123.6, 353.6, 772.3, 1555.2]
    assert NAMED["gpt2"].flops_per_token == pytest.approx(854.8e6, rel=1e-4)


def test_a_shape() -> None:
    assert find_model("n_layer=6, n_head=6, n_embd=384") == Model("6x384", 6, 6, 384)
    assert find_model("n_layer=6,n_head=6,n_embd=384,block_size=256,vocab_size=65") == Model(
        "6x384", 6, 6, 384, 256, 65
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gpt3", "--model 'gpt3': unknown; use gpt2, gpt2-medium, gpt2-large, gpt2-xl"),
        ("", "unknown"),
        ("n_layer=6", "also requires n_head, n_embd"),
        ("n_layer=6,n_head=5,n_embd=384", "384 is not a multiple of 5"),
        ("n_layer=6,n_layer=6,n_head=6,n_embd=384", "each given once"),
        ("n_layers=6,n_head=6,n_embd=384", "'n_layers=6' must be one of n_layer"),
        ("n_layer=0,n_head=6,n_embd=384", "from 1 to 1000, not '0'"),
        ("n_layer=-1,n_head=6,n_embd=384", "not '-1'"),
        ("n_layer=9**9,n_head=6,n_embd=384", "not '9**9'"),
        ("n_layer=6,n_head=6,n_embd=384,", "each given once"),
    ],
)
def test_what_is_no_model(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        find_model(text)
    assert said in str(caught.value)


@given(st.one_of(st.text(max_size=30), st.text(alphabet="n_layerheadmb=,0123456789", max_size=40)))
def test_any_text_is_answered(text: str) -> None:
    try:
        model = find_model(text)
    except UsageError:
        return
    assert model.n_embd % model.n_head == 0


@given(st.integers(1, 1000), st.integers(1, 60), st.integers(1, 64))
def test_a_shape_is_read_as_it_is_written(n_layer: int, n_head: int, width: int) -> None:
    model = find_model(f"n_embd={n_head * width},n_head={n_head},n_layer={n_layer}")
    assert (model.n_layer, model.n_head, model.n_embd) == (n_layer, n_head, n_head * width)
