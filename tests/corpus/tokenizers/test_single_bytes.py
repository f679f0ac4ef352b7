"""Bytes are their own ids."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nanopace.corpus.tokenizers.single_bytes import SingleBytes


@given(st.text())
def test_the_ids_are_the_bytes(text: str) -> None:
    assert bytes(SingleBytes().encode(text)) == text.encode()
    assert SingleBytes().encode_batch([text])[0].tobytes() == text.encode()


def test_the_vocabulary() -> None:
    tokenizer = SingleBytes()
    assert (tokenizer.vocab_size, tokenizer.end_of_text) == (257, 256)
    assert tokenizer.decode([104, 105, 256, 257, 195]) == "hi<|endoftext|>\ufffd\ufffd"
    assert tokenizer.token_bytes().tolist() == [1] * 256 + [0]
