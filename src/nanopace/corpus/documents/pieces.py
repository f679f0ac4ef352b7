"""A document as pieces of 64 kB: small beside the memory, enough of them for every core, and cut between tokens.

A single text may be larger than the memory, and a tokenizer encodes one text on one core. So every document is encoded
piece by piece. A piece ends before a line break or a space that has a word behind it, where GPT-2's rule for words (and
our own BPE's, which is the same) begins a new word anyway: the tokens are those of the whole text.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import BinaryIO

from nanopace.errors import InputError

PIECE = 1 << 16  # bytes
_IN_MEMORY = 8 << 20  # a larger document is read twice: for its hash, then for its text
_HOLE = bytes(PIECE)
_LONGEST_CHARACTER = 4  # bytes of UTF-8
_BOM = "\ufeff"
_REPLACEMENT = "\ufffd"
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")

Reopen = Callable[[], AbstractContextManager[BinaryIO]]


@dataclass(frozen=True, slots=True)
class Document:
    """One text; where it is a file of its own, not yet read."""

    content: bytes | Reopen
    name: str  # for whoever has to mend it
    at: Callable[[], int]  # how many bytes of the input file are read by now


@dataclass(frozen=True, slots=True)
class Piece:
    """Some text of a document."""

    text: str
    size: int  # bytes of the text in UTF-8
    begins: bool  # the document's first
    digest: int  # 64 bits of the hash of the whole document: the same for the same text
    held_out: bool | None  # for validation; None: the digest decides
    replaced: int  # characters that stand for bytes that are not UTF-8
    at: int  # how many bytes of the input file were read up to here


def pieces_of(document: Document, held_out: float | None = None) -> Iterator[Piece]:
    """A document's pieces. With `held_out`, this share at its end is a document of its own, for validation."""
    content = document.content
    if content == b"":
        return
    if held_out is None and isinstance(content, bytes) and 0 < len(content) <= PIECE:
        text, replaced = decoded(content)  # as below, for the millions of documents that are short
        text = text.removeprefix(_BOM)
        yield Piece(text, len(text.encode()), True, _digest(content), None, replaced, document.at())
        return
    reopen = _reopener(document)
    with reopen() as stream:
        size, digest = _measured(stream, document)
    spans: list[tuple[int, int, bool | None]] = [(size, digest, None)]
    if held_out is not None:
        cut = _place_of_cut(reopen, int(size * (1 - held_out)))
        spans = [(cut, digest, False), (size - cut, digest ^ 1, True)]
    with reopen() as stream:
        for size, digest, belongs in spans:
            yield from _span(stream, size, digest, belongs, document)


def _reopener(document: Document) -> Reopen:
    """A function that opens the document's bytes anew: from memory, unless there are many."""
    content = document.content
    if not isinstance(content, bytes):
        reopen = content
        with reopen() as stream:
            content = _read(stream, _IN_MEMORY + 1)
        if content.startswith(_UTF_16):
            raise InputError("{path}: is UTF-16; save it as UTF-8", path=document.name)
        if b"\0" in content[:4096]:
            raise InputError("{path}: is not a text file", path=document.name)
        if len(content) > _IN_MEMORY:
            return reopen
    return lambda: io.BytesIO(content)


def _measured(stream: BinaryIO, document: Document) -> tuple[int, int]:
    """The size and the digest of a stream."""
    hashed = hashlib.blake2b(digest_size=8)
    size = 0
    while chunk := stream.read(PIECE):
        if chunk == _HOLE:  # of a file that is nothing but a size
            raise InputError("{path}: is not a text file", path=document.name)
        hashed.update(chunk)
        size += len(chunk)
    return size, int.from_bytes(hashed.digest(), "big")


def _digest(data: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "big")


def _place_of_cut(reopen: Reopen, place: int) -> int:
    """The character's beginning at or before a place. nanoGPT, too, cuts its small examples wherever the share ends."""
    before = max(0, place - _LONGEST_CHARACTER)
    with reopen() as stream:
        skipped = 0
        while skipped < before and (chunk := stream.read(min(PIECE, before - skipped))):
            skipped += len(chunk)
        around = _read(stream, 2 * _LONGEST_CHARACTER)
    return before + _character_start(around, place - before)


def _span(stream: BinaryIO, size: int, digest: int, held_out: bool | None, document: Document) -> Iterator[Piece]:
    """The next `size` bytes of a stream, as one document."""
    rest = b""
    begins = True
    while size > 0:
        wanted = min(PIECE, size)
        data = rest + _read(stream, wanted - len(rest))
        if len(data) < wanted:
            raise InputError("{path}: changed while being read; start again", path=document.name)
        cut = size if wanted == size else cut_between_words(data)
        text, replaced = decoded(data[:cut])
        if begins:
            text = text.removeprefix(_BOM)
        yield Piece(text, len(text.encode()), begins, digest, held_out, replaced, document.at())
        rest = data[cut:]
        size -= cut
        begins = False


def cut_between_words(data: bytes) -> int:
    """Where a piece ends: before a blank that has a word behind it, else between two characters."""
    for blank in (b"\n", b" "):
        place = len(data) - _LONGEST_CHARACTER
        while (place := data.rfind(blank, len(data) // 2, place)) > 0:
            following = data[place + 1 : place + 1 + _LONGEST_CHARACTER].decode(errors="ignore")[:1]
            if following and not following.isspace():
                return place
            place = max(1, len(data[:place].rstrip()))  # nor has any other blank of this run a word behind it
    return _character_start(data, len(data) - _LONGEST_CHARACTER)


def _character_start(data: bytes, place: int) -> int:
    """`place`, or the start of the character that a cut at `place` would break."""
    for start in range(place, max(-1, place - _LONGEST_CHARACTER), -1):
        if start >= len(data) or data[start] & 0xC0 != 0x80:
            return start
    return place  # not UTF-8 at all


def decoded(data: bytes) -> tuple[str, int]:
    """The text, and how many of its characters are U+FFFD because bytes are not UTF-8."""
    try:
        return data.decode(), 0
    except UnicodeDecodeError:
        text = data.decode(errors="replace")
        return text, text.count(_REPLACEMENT) - data.count(_REPLACEMENT.encode())


def _read(stream: BinaryIO, size: int) -> bytes:
    """That many bytes, or all that are left: a decompressor may hand out fewer at a time."""
    chunks = []
    while size > 0 and (chunk := stream.read(size)):
        chunks.append(chunk)
        size -= len(chunk)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)
