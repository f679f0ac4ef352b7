"""Finds the documents in a file: a text file is one, and so is each row of JSONL or parquet and each member of a zip.

Everything is streamed, and an archive is never extracted. The first bytes determine the type of a file; its name only
distinguishes JSONL from other text. Bytes that are not UTF-8 become U+FFFD and are counted. Any other defect is an
error that names the file and line, because a corpus that silently lacks its second half is worse than none. Lines of
text end with `\\n` (newlines.py); strings in JSONL and parquet are left unchanged.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from nanopace.compressed import DENSEST, Density, TooDenseError, check_density, decompressed
from nanopace.corpus.documents.inputs import ARCHIVE, PARQUET, holds_text, is_json_lines
from nanopace.corpus.documents.newlines import with_plain_newlines
from nanopace.corpus.documents.parquet import MAGIC, listed, texts_of_parquet
from nanopace.corpus.documents.pieces import Document
from nanopace.errors import InputError, unreadable
from nanopace.files import open_regular, takes_much_memory

if TYPE_CHECKING:
    import zipfile

_LONGEST_ROW = 32 << 20  # bytes of one JSONL line
_LONG_ROW = 1 << 20  # bytes; a longer line may become more objects than fit in memory
_MEMBER_HEADER = 30  # bytes before each member, plus its name
_ARCHIVES = (b"PK\x03\x04", b"PK\x05\x06")  # with members, and empty

Position = Callable[[], int]


def documents(path: Path, text_field: str = "text") -> Iterator[Document]:
    """All documents of a file, in order. A text that is a separate file is not read yet."""
    with _open(path) as file, _complaints(str(path)):
        head = file.read(4)
    if head == MAGIC:
        yield from texts_of_parquet(path, text_field)
    elif head in _ARCHIVES:
        yield from _archive(path, text_field)
    elif path.suffix.lower() in (PARQUET, ARCHIVE):  # usually a web page that was downloaded instead
        raise InputError(
            "{path}: its content does not match its name: it does not start like {kind}; download it again or rename "
            "it",
            path=path,
            kind=path.suffix.lower(),
        )
    elif is_json_lines(path.name):
        with _open(path) as file, _complaints(str(path)):
            yield from _json_lines(_unpacked(file), str(path), text_field, file.tell)
    else:
        text = _TextFile(path)
        yield Document(text.open, str(path), text.at)


# --- files -----------------------------------------------------------------------------------------------------------


class _TextFile:
    """A file that is one document. Counts how much of it was read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: io.BufferedReader | None = None
        self._read = 0

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        with _open(self._path) as self._file, _complaints(str(self._path)):
            yield with_plain_newlines(_unpacked(self._file))
            self._read = self._file.tell()
        self._file = None

    def at(self) -> int:
        return self._read if self._file is None else self._file.tell()


def _open(path: Path) -> io.BufferedReader:
    try:
        return open_regular(path)
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from None


def _unpacked(file: io.BufferedReader) -> BinaryIO:
    stream = decompressed(file)
    return stream if stream is file else io.BufferedReader(_Watched(stream, Density(file)))


class _Watched(io.RawIOBase):
    """A decompressor that stops if a small file expands far too much."""

    def __init__(self, stream: BinaryIO, density: Density | _Amount) -> None:
        self._stream, self._density = stream, density

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._stream.read(len(buffer))
        buffer[: len(data)] = data
        self._density.add(len(data))
        return len(data)


@contextmanager
def _complaints(name: str) -> Iterator[None]:
    """Turn any error that a decompressor raises for a broken file into one line that names the file."""
    import lzma
    import struct
    import zipfile
    import zlib

    import zstandard

    of_archives = (zipfile.BadZipFile, NotImplementedError)
    try:
        yield
    except EOFError:
        raise InputError("{path}: is truncated; download it again", path=name) from None
    except (TooDenseError, MemoryError):
        raise InputError(
            "{path}: unpacks to more than {times} times its size, which no text does", path=name, times=DENSEST
        ) from None
    except (OSError, ValueError, struct.error, zlib.error, lzma.LZMAError, zstandard.ZstdError, *of_archives) as error:
        raise InputError("{path}: cannot be read: {reason}", path=name, reason=str(error)) from None


# --- JSONL -----------------------------------------------------------------------------------------------------------


def _json_lines(stream: BinaryIO, name: str, text_field: str, at: Position) -> Iterator[Document]:
    number = 0
    while line := stream.readline(_LONGEST_ROW + 1):
        number += 1
        if len(line) > _LONGEST_ROW:
            raise InputError("{path}: line {line} is longer than 32 MB", path=name, line=number)
        if not line.isspace():
            text = _field(line, text_field, name, number)
            if text is not None:
                yield Document(text, name, at)


def _field(line: bytes, text_field: str, name: str, number: int) -> bytes | None:
    """The text of a row, or None if it is null. Bytes that are not UTF-8 are kept, and replaced later."""
    try:
        heavy = len(line) > _LONG_ROW and takes_much_memory(line)
        row = None if heavy else json.loads(line.decode(errors="surrogateescape"))
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, dict):
        raise InputError("{path}: line {line} is not a JSON object", path=name, line=number)
    if text_field not in row:
        raise InputError(
            "{path}: line {line} has no {field}; use --text_field to name the field with the text: {known}",
            path=name,
            line=number,
            field=repr(text_field),
            known=listed(list(row)),
        )
    value = row[text_field]
    if value is None:
        return None
    if not isinstance(value, str):
        raise InputError("{path}: line {line}: {field} is not text", path=name, line=number, field=repr(text_field))
    return value.encode(errors="surrogatepass")


# --- archives --------------------------------------------------------------------------------------------------------


class _Amount:
    """Compares the output of an archive with its size, whatever its members claim. Bytes read twice count once."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._before = self._furthest = self._out = 0
        self._member = -1

    def begin(self, member: zipfile.ZipInfo) -> None:
        """Start reading a member from its first byte."""
        if member.header_offset != self._member:
            self._before, self._furthest, self._member = self._before + self._furthest, 0, member.header_offset
        self._out = 0

    def add(self, count: int) -> None:
        self._out += count
        self._furthest = max(self._furthest, self._out)
        check_density(self._before + self._furthest, self._size)


def _archive(path: Path, text_field: str) -> Iterator[Document]:
    """The texts in a zip archive, by the rules for a directory. A member's name is never used as a path."""
    import zipfile

    with _complaints(str(path)), _open(path) as file, zipfile.ZipFile(file) as archive:
        _check_members(path, archive)
        amount = _Amount(path.stat().st_size)
        for member in archive.infolist():
            if not holds_text(member.filename) or member.is_dir():  # a name may be empty
                continue
            name = f"{path}: {member.filename}"
            if member.flag_bits & 1:
                raise InputError("{path}: is encrypted", path=name)
            opened = partial(_open_member, archive, member, name, amount)
            if is_json_lines(member.filename):
                with opened() as stream:
                    yield from _json_lines(stream, name, text_field, file.tell)
            else:
                yield Document(partial(_open_text, opened), name, file.tell)


def _check_members(path: Path, archive: zipfile.ZipFile) -> None:
    """Refuse members that share the same bytes: they would make a small archive endless."""
    end = 0
    for member in sorted(archive.infolist(), key=lambda member: member.header_offset):
        if member.header_offset < end:
            raise InputError("{path}: cannot be read: archive members overlap", path=path)
        end = member.header_offset + _MEMBER_HEADER + member.compress_size


@contextmanager
def _open_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, name: str, amount: _Amount) -> Iterator[BinaryIO]:
    with _complaints(name), archive.open(member) as stream:
        check_density(member.file_size, member.compress_size)
        amount.begin(member)
        yield io.BufferedReader(_Watched(_unpacked(io.BufferedReader(cast(io.RawIOBase, stream))), amount))


@contextmanager
def _open_text(opened: Callable[[], AbstractContextManager[BinaryIO]]) -> Iterator[BinaryIO]:
    with opened() as stream:
        yield with_plain_newlines(stream)
