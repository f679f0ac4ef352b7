from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nanopace.corpus.tokenizers.tokenizer import bytes_tokenizer, chars, gpt2
from nanopace.errors import InputError
from nanopace.train.models.generate import TextStream, generate
from nanopace.train.models.gpt2 import GPT

from ..tiny import SHAPE, tiny_model


@pytest.fixture(scope="module")
def model() -> GPT:
    return tiny_model()


class Fixed(GPT):
    """Returns the same logits whatever it reads."""

    def __init__(self, logits: torch.Tensor) -> None:
        super().__init__(replace(SHAPE, vocab_size=len(logits)))
        self.eval()
        self._logits = logits

    def next_logits(self, tokens: torch.Tensor, cache: object = None) -> torch.Tensor:  # noqa: ARG002
        return self._logits[None]


@pytest.mark.parametrize("count", [1, 8, 9, 10, 16, 60])
@pytest.mark.parametrize("prompt", [1, 4, 12, 30])
def test_with_and_without_a_cache_the_text_is_the_same(prompt: int, count: int, model: GPT) -> None:
    """Within the block of 12, at its end and far beyond."""
    tokens = list(range(5, 5 + prompt))
    kept, anew = (list(generate(model, tokens, count, top_k=None, seed=count, cache=cache)) for cache in (True, False))
    assert kept == anew
    assert len(kept) == count
    assert len(set(kept)) > count // 3  # not a single token forever, which would agree with anything


def test_within_a_block_the_model_sees_everything(model: GPT) -> None:
    """The most likely token each time, found by reading everything."""
    tokens = [3, 4, 5]
    for _ in range(10):
        if len(tokens) == 13:
            break
        tokens.append(int(model.logits(torch.tensor([tokens]))[0, -1].argmax()))
    assert list(generate(model, [3, 4, 5], 10, temperature=0)) == tokens[3:]


def test_beyond_a_block_it_sees_at_least_half_of_one() -> None:
    seen: list[int] = []

    class Watched(Fixed):
        def next_logits(self, tokens: torch.Tensor, cache: object = None) -> torch.Tensor:
            seen.append(tokens.size(1))
            return super().next_logits(tokens, cache)

    list(generate(Watched(torch.zeros(300)), [1], 40, cache=False))
    assert seen == [*range(1, 13), *range(6, 13), *range(6, 13), *range(6, 13), *range(6, 13)]
    del seen[:]
    list(generate(Watched(torch.zeros(300)), [1] * 99, 2, cache=False))
    assert seen == [12, 6]  # of a long prompt the end, as in nanoGPT


@pytest.mark.parametrize("block_size", [1, 2, 3])
def test_the_smallest_blocks(block_size: int) -> None:
    small = tiny_model(replace(SHAPE, block_size=block_size))
    kept, anew = (list(generate(small, [1, 2], 12, cache=cache)) for cache in (True, False))
    assert kept == anew
    assert len(kept) == 12


def test_a_seed_is_a_text(model: GPT) -> None:
    texts = [tuple(generate(model, [1], 8, seed=seed)) for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]


def drawn(logits: list[float], **how: float) -> Counter[int]:
    """800 draws."""
    return Counter(generate(Fixed(torch.tensor(logits)), [0], 800, **how))  # type: ignore[arg-type]


LOGITS = [0.0, 2.0, 1.0, 3.0, -5.0]
CHANCES = torch.softmax(torch.tensor(LOGITS), -1).tolist()  # 0.03 0.24 0.09 0.64 0.0002


def test_draws_have_their_chances() -> None:
    found = drawn(LOGITS, temperature=1.0)
    for token, chance in enumerate(CHANCES):
        assert found[token] / 800 == pytest.approx(chance, abs=4 * (chance * (1 - chance) / 800) ** 0.5 + 1e-3)


def test_rounding_does_not_change_a_text() -> None:
    """Two equally likely tokens that rounding swaps keep their own draws."""
    apart = torch.tensor([1.0, 1.0 + 1.2e-7, 0.5, 0.2])
    texts = [
        list(generate(Fixed(logits), [0], 300, temperature=1.0, top_k=top_k, top_p=top_p))
        for logits in (apart, apart[[1, 0, 2, 3]])
        for top_k, top_p in ((3, 1.0), (0, 0.95), (0, 1.0))
    ]
    assert texts[:3] == texts[3:]


def test_temperature_sharpens() -> None:
    assert drawn(LOGITS, temperature=0) == {3: 800}
    assert drawn(LOGITS, temperature=1e-30) == {3: 800}
    assert drawn(LOGITS, temperature=0.5)[3] > drawn(LOGITS, temperature=1.0)[3] > drawn(LOGITS, temperature=5.0)[3]


def test_top_k_leaves_the_likeliest() -> None:
    assert set(drawn(LOGITS, top_k=2, temperature=1.0)) == {3, 1}
    assert set(drawn(LOGITS, top_k=1)) == {3}
    assert (
        set(drawn(LOGITS, top_k=0, temperature=9.0)) == set(drawn(LOGITS, top_k=99, temperature=9.0)) == set(range(5))
    )


def test_top_p_leaves_the_likeliest_that_reach_it() -> None:
    assert set(drawn(LOGITS, top_p=0.5, temperature=1.0)) == {3}
    assert set(drawn(LOGITS, top_p=0.7, temperature=1.0)) == {3, 1}
    assert set(drawn(LOGITS, top_p=0.9, top_k=0, temperature=1.0)) == {3, 1, 2}
    assert set(drawn(LOGITS, top_p=1e-9, temperature=1.0)) == {3}


def test_padding_of_the_vocabulary_is_never_drawn() -> None:
    assert set(drawn(LOGITS, vocabulary=3, temperature=1.0)) == {0, 1, 2}


def test_the_end_of_a_text_ends_it() -> None:
    text = list(generate(Fixed(torch.tensor(LOGITS)), [0], 800, temperature=1.0, end_of_text=0))
    assert 0 < len(text) < 300
    assert 0 not in text


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("how", [{}, {"temperature": 0}, {"top_p": 0.5}, {"top_k": None}])
def test_a_model_that_diverged_says_so(bad: float, how: dict[str, float]) -> None:
    with pytest.raises(InputError, match="not finite numbers: its training has diverged"):
        drawn([0.0, bad, 1.0], **how)


def test_the_caller_s_mistakes(model: GPT) -> None:
    with pytest.raises(AssertionError, match="something that the first token follows"):
        next(generate(model, [], 1))
    with pytest.raises(AssertionError, match="dropout"):
        next(generate(tiny_model().train(), [1], 1))


def test_gradients_are_as_they_were_between_two_tokens(model: GPT) -> None:
    """A suspended generator must not leave its caller in inference mode."""
    tokens = generate(model, [1], 2)
    next(tokens)
    assert torch.is_grad_enabled()
    assert not torch.is_inference_mode_enabled()


# --- text ------------------------------------------------------------------------------------------------------------


@given(st.text())
def test_a_text_arrives_whole_and_never_in_halves(text: str) -> None:
    """Byte by byte: no piece contains a replacement character that is not in the text."""
    tokenizer = bytes_tokenizer()
    stream = TextStream(tokenizer)
    pieces = [stream.add(token) for token in tokenizer.encode(text)]
    assert "".join([*pieces, stream.end()]) == text
    assert stream.end() == ""
    if "\ufffd" not in text:
        assert "".join(pieces) == text


@given(st.lists(st.integers(0, 299), max_size=40))
def test_any_tokens_read_as_they_do_together(tokens: list[int]) -> None:
    tokenizer = bytes_tokenizer()
    stream = TextStream(tokenizer)
    assert "".join([*map(stream.add, tokens), stream.end()]) == tokenizer.decode(tokens)


def test_text_comes_as_soon_as_it_is_certain() -> None:
    stream = TextStream(bytes_tokenizer())
    assert [stream.add(token) for token in "aé€b".encode()] == ["a", "", "é", "", "", "€", "b"]
    stream = TextStream(gpt2())
    pieces = [stream.add(token) for token in gpt2().encode("a 🙂 b")]
    assert [piece for piece in pieces if piece] == ["a", " 🙂", " b"]
    stream = TextStream(chars("ab\ufffd"))
    assert [stream.add(token) for token in (0, 2, 1)] == ["a", "", "\ufffdb"]
    assert stream.end() == ""
