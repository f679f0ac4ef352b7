"""The alphabet of a corpus, as nanoGPT makes it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanopace.corpus.tokenizers.characters import Characters
from nanopace.corpus.tokenizers.tokenizer import chars
from nanopace.errors import InputError

every_character = st.text(st.characters(codec=None), min_size=1)


@given(every_character)
def test_the_ids_are_those_of_nanogpt(text: str) -> None:
    nanogpt = {letter: number for number, letter in enumerate(sorted(set(text)))}
    tokenizer = chars(text)
    assert tokenizer.vocab_size == len(nanogpt)
    assert tokenizer.encode(text) == [nanogpt[letter] for letter in text]
    assert tokenizer.decode(tokenizer.encode(text)) == text


@given(every_character, st.characters(codec=None))
def test_a_character_that_is_not_in_the_alphabet_is_named(text: str, stranger: str) -> None:
    tokenizer = chars(letter for letter in text + "a" if letter != stranger) if stranger != "a" else chars("b")
    with pytest.raises(InputError) as error:
        tokenizer.encode(("a" if stranger != "a" else "b") + stranger)
    assert repr(stranger) in str(error.value)


def test_the_order_of_the_ids_is_kept() -> None:
    tokenizer = Characters("cab")
    assert tokenizer.encode("abc") == [1, 2, 0]
    assert tokenizer.hash != Characters("abc").hash


def test_bytes_of_characters() -> None:
    assert chars("aü€😀").token_bytes().tolist() == [1, 2, 3, 4]


def test_no_text_no_ids() -> None:
    assert chars("a").encode("") == []
