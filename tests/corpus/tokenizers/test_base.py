"""Ids to text and bytes, fingerprints, and GPT-2's letters."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nanopace.corpus.tokenizers.base import BYTE_OF_LETTER, byte_counts, encodable, fingerprint, spelled, text_of

ENTRIES = st.lists(st.binary(max_size=3), max_size=4)


@given(st.lists(ENTRIES, max_size=3), st.lists(ENTRIES, max_size=3))
def test_fingerprints_are_equal_only_where_everything_is(one: list[list[bytes]], other: list[list[bytes]]) -> None:
    assert (fingerprint("bpe", *one) == fingerprint("bpe", *other)) == (one == other)
    assert fingerprint("bpe", *one) != fingerprint("chars", *one)


def test_every_byte_has_one_letter_that_can_be_printed() -> None:
    assert sorted(BYTE_OF_LETTER.values()) == list(range(256))
    assert all(letter.isprintable() and not letter.isspace() for letter in BYTE_OF_LETTER)


def test_the_letters_are_gpt2s() -> None:
    assert spelled("ĠHelloĊ") == b" Hello\n"
    assert spelled("Ã¼") == "ü".encode()


def test_what_makes_no_sense_is_shown_as_such() -> None:
    vocabulary = (b"a", "ü".encode()[:1], "ü".encode()[1:])
    assert text_of([0, 1, 2, 0], vocabulary) == "aüa"
    assert text_of([1, 0, 3, -1], vocabulary) == "\ufffda\ufffd\ufffd"


def test_the_id_between_documents_stands_for_no_text() -> None:
    assert byte_counts((b"a", b"bc", b"<|endoftext|>"), 2).tolist() == [1, 2, 0]
    assert byte_counts((b"a", b"bc"), None).tolist() == [1, 2]


def test_halves_of_a_pair_are_joined_or_replaced() -> None:
    assert encodable("a\ud83d\ude00b") == "a😀b"
    assert encodable("a\ud83db") == "a\ufffdb"
    assert encodable("aü😀") == "aü😀"
