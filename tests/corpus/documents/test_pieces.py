"""Pieces: no character is lost, no token is cut, and no text is too long."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nanopace.corpus.documents import pieces as module
from nanopace.corpus.documents.pieces import Document, Piece, cut_between_words, decoded, pieces_of
from nanopace.corpus.documents.read import documents
from nanopace.corpus.tokenizers.tokenizer import Tokenizer, gpt2, train_bpe
from nanopace.errors import InputError

SMALL = 64
UTF_16 = (b"\xff\xfe", b"\xfe\xff")
BLANKS = " \n\t\r  \u00a0\u3000\u2028\x0b\x1c"
TEXTS = st.text(st.sampled_from("ab1'.(" + BLANKS + "é€文😀\u0301"), max_size=600)


def cut(content: bytes, held_out: float | None = None, size: int = SMALL) -> list[Piece]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "PIECE", size)
        return list(pieces_of(Document(content, "x", lambda: 0), held_out))


def joined(found: list[Piece]) -> str:
    return "".join(piece.text for piece in found)


@given(TEXTS)
def test_nothing_is_lost(text: str) -> None:
    found = cut(text.encode())
    assert joined(found) == text
    assert sum(piece.size for piece in found) == len(text.encode())
    assert [piece.begins for piece in found] == [True, *[False] * (len(found) - 1)][: len(found)]
    assert len({piece.digest for piece in found}) <= 1
    assert max((piece.size for piece in found), default=0) <= SMALL


@given(st.binary(max_size=400))
def test_any_bytes(data: bytes) -> None:
    found = cut(data)
    assert sum(piece.size for piece in found) == len(joined(found).encode())
    if not found or not found[0].text.startswith("\ufeff"):
        lost = sum(piece.replaced for piece in found)
        assert (lost == 0) == (data.decode(errors="replace").encode() == data)


@pytest.fixture(scope="module", params=["gpt2", "bpe"])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    if request.param == "gpt2":
        return gpt2()
    return train_bpe(["def a():\n    return 1  # b\n\n\n'a'.b(\n" * 20, BLANKS], 300)


@settings(deadline=None, max_examples=300)
@given(text=st.text(st.sampled_from("ab1'.(" + BLANKS + "\n " * 6), min_size=SMALL, max_size=600))
def test_the_tokens_are_those_of_the_whole_text(tokenizer: Tokenizer, text: str) -> None:
    found = [piece.text for piece in cut(text.encode())]
    if all(re.match(r"[\n ]\S", following) for following in found[1:]):  # otherwise there was no blank to cut at
        assert [token for ids in tokenizer.encode_batch(found) for token in ids] == tokenizer.encode(text)


def test_the_tokens_of_real_text(tokenizer: Tokenizer) -> None:
    text = Path(module.__file__).read_text()
    assert len(cut(text.encode(), size=500)) > 10
    found = [piece.text for piece in cut(text.encode(), size=500)]
    assert [token for ids in tokenizer.encode_batch(found) for token in ids] == tokenizer.encode(text)


def test_where_a_piece_ends() -> None:
    assert cut_between_words(b"a" * 50 + b"\nword word word word") == 50  # a line break rather than a space
    assert cut_between_words(b"a" * 50 + b"\n  word word  word") == 63  # one followed by a word
    assert cut_between_words(b"a" * 50) == 46  # nowhere better
    assert cut_between_words("€".encode() * 20) == 54  # not inside a character
    assert cut_between_words(b"\x80" * 50) == 46  # these are no characters


def test_bytes_that_are_not_utf_8_are_replaced_and_counted() -> None:
    assert decoded("ä\ufffd".encode()) == ("ä\ufffd", 0)
    assert decoded(b"\xff\xef\xbf\xbda\xe4") == ("\ufffd\ufffda\ufffd", 2)


def test_a_byte_order_mark_is_no_text() -> None:
    assert joined(cut("\ufeffabc".encode())) == "abc"
    assert joined(cut(("a" * 70 + "\ufeffabc").encode())) == "a" * 70 + "\ufeffabc"


@given(st.binary(max_size=200) | TEXTS.map(str.encode))
def test_a_short_document_is_read_like_a_long_one(data: bytes) -> None:
    """Documents in memory have a fast path; a file gives the same text and the same digest."""
    in_memory = list(pieces_of(Document(data, "x", lambda: 7)))
    text = data.replace(b"\0", b" ")
    as_file = list(pieces_of(Document(lambda: io.BytesIO(text), "x", lambda: 7))) if text[:2] not in UTF_16 else []
    if as_file and text == data:
        assert in_memory == as_file


def test_the_same_text_has_the_same_digest() -> None:
    first, second, third = cut(b"text"), cut(b"text"), cut(b"text ")
    assert first[0].digest == second[0].digest != third[0].digest
    assert first[0].held_out is None
    assert cut(b"") == []


@given(TEXTS.filter(bool), st.floats(0.01, 0.99))
def test_the_end_held_out(text: str, share: float) -> None:
    found = cut(text.encode(), share)
    train = joined([piece for piece in found if piece.held_out is False])
    val = joined([piece for piece in found if piece.held_out])
    assert train + val == text
    place = int(len(text.encode()) * (1 - share))
    assert place - 3 <= len(train.encode()) <= place
    begins = [piece.held_out for piece in found if piece.begins]
    assert begins == [held_out for held_out, part in ((False, train), (True, val)) if part]
    assert len({piece.digest for piece in found}) == len(begins)


def test_the_cut_of_nanogpt() -> None:
    train, val = cut(b"0123456789" * 3, 0.1)
    assert (train.text, val.text) == ("012345678901234567890123456", "789")


# --- files -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("held_out", [None, 0.1])
def test_a_text_larger_than_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held_out: float | None) -> None:
    path = tmp_path / "a.txt"
    path.write_text("".join(f"line {n} äöü\n" for n in range(500)))
    [document] = documents(path)
    monkeypatch.setattr(module, "PIECE", SMALL)
    at_once = list(pieces_of(document, held_out))
    monkeypatch.setattr(module, "_IN_MEMORY", 1000)
    streamed = list(pieces_of(document, held_out))
    assert [(piece.text, piece.digest, piece.begins, piece.held_out) for piece in streamed] == [
        (piece.text, piece.digest, piece.begins, piece.held_out) for piece in at_once
    ]
    read = [piece.at for piece in streamed]
    assert read == sorted(read)
    assert read[-1] == path.stat().st_size


@pytest.mark.parametrize("content", ["text".encode("utf-16"), b"\xfe\xff\0t"])
def test_utf_16_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.txt").write_bytes(content)
    [document] = documents(tmp_path / "a.txt")
    with pytest.raises(InputError, match=r"a\.txt: is UTF-16; save it as UTF-8"):
        list(pieces_of(document))


def test_what_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"\x7fELF\0\0")
    [document] = documents(tmp_path / "a.txt")
    with pytest.raises(InputError, match=r"a\.txt: is not a text file"):
        list(pieces_of(document))


def test_a_file_that_shrinks_while_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths = iter([300, 300, 100])

    @contextmanager
    def shrinking() -> Iterator[BinaryIO]:
        yield io.BytesIO(b"a" * next(lengths))

    monkeypatch.setattr(module, "_IN_MEMORY", 200)
    with pytest.raises(InputError, match=r"a\.txt: changed while being read"):
        list(pieces_of(Document(shrinking, "a.txt", lambda: 0)))


def test_a_stream_that_gives_little_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            return super().read(min(7, size or 0))

    monkeypatch.setattr(module, "PIECE", SMALL)
    text = b"some words " * 40
    slow = list(pieces_of(Document(lambda: Slow(text), "x", lambda: 0), 0.5))
    assert slow == cut(text, 0.5)
