"""Splits documents into pieces of 64 kB: small in memory, enough for every core, and cut between tokens.

A single text may be larger than memory, and a tokenizer encodes one text on one core. So each document is encoded in
pieces. A piece ends before a line break or space that is followed by a word. GPT-2's splitting rule (and that of our
BPE, which is the same) starts a new word there anyway, so the tokens are those of the complete text.
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
_IN_MEMORY = 8 << 20  # a larger document is read twice: once for its hash, once for its text
_HOLE = bytes(PIECE)
_LONGEST_CHARACTER = 4  # bytes of UTF-8
_BOM = "\ufeff"
_REPLACEMENT = "\ufffd"
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")

Reopen = Callable[[], AbstractContextManager[BinaryIO]]


@dataclass(frozen=True, slots=True)
class Document:
    """One text. If it is a separate file, it has not been read yet."""

    content: bytes | Reopen
    name: str  # for error messages
    at: Callable[[], int]  # how many bytes of the input file have been read


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a document."""

    text: str
    size: int  # bytes of the text in UTF-8
    begins: bool  # it is the document's first piece
    digest: int  # 64 bits of the whole document's hash: equal texts have equal digests
    held_out: bool | None  # for validation; None: the digest decides
    replaced: int  # characters that replace bytes that are not UTF-8
    at: int  # how many bytes of the input file have been read up to here


def pieces_of(document: Document, held_out: float | None = None) -> Iterator[Piece]:
    """The pieces of a document. With `held_out`, this share at its end becomes a separate document for validation."""
    content = document.content
    if content == b"":
        return
    if held_out is None and isinstance(content, bytes) and 0 < len(content) <= PIECE:
        text, replaced = decoded(content)  # the same as below, for millions of short documents
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
    """A function that opens the document's bytes again: from memory, unless it is large."""
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
    """The size and digest of a stream."""
    hashed = hashlib.blake2b(digest_size=8)
    size = 0
    while chunk := stream.read(PIECE):
        if chunk == _HOLE:  # a sparse file without content
            raise InputError("{path}: is not a text file", path=document.name)
        hashed.update(chunk)
        size += len(chunk)
    return size, int.from_bytes(hashed.digest(), "big")


def _digest(data: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "big")


def _place_of_cut(reopen: Reopen, place: int) -> int:
    """The start of the character at or before a place. nanoGPT cuts its small examples wherever the share ends, too."""
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
    """Where to end a piece: before a blank that is followed by a word, else between two characters."""
    for blank in (b"\n", b" "):
        place = len(data) - _LONGEST_CHARACTER
        while (place := data.rfind(blank, len(data) // 2, place)) > 0:
            following = data[place + 1 : place + 1 + _LONGEST_CHARACTER].decode(errors="ignore")[:1]
            if following and not following.isspace():
                return place
            place = max(1, len(data[:place].rstrip()))  # no other blank of this run is followed by a word
    return _character_start(data, len(data) - _LONGEST_CHARACTER)


def _character_start(data: bytes, place: int) -> int:
    """`place`, or the start of the character that a cut at `place` would break."""
    for start in range(place, max(-1, place - _LONGEST_CHARACTER), -1):
        if start >= len(data) or data[start] & 0xC0 != 0x80:
            return start
    return place  # not UTF-8 at all


def decoded(data: bytes) -> tuple[str, int]:
    """The text, and how many of its characters are U+FFFD because the bytes are not UTF-8."""
    try:
        return data.decode(), 0
    except UnicodeDecodeError:
        text = data.decode(errors="replace")
        return text, text.count(_REPLACEMENT) - data.count(_REPLACEMENT.encode())


def _read(stream: BinaryIO, size: int) -> bytes:
    """Read `size` bytes, or all that are left: a decompressor may return fewer at a time."""
    chunks = []
    while size > 0 and (chunk := stream.read(size)):
        chunks.append(chunk)
        size -= len(chunk)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)
