"""Reads compressed files. The first bytes of a file decide how, not its name."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any, BinaryIO, cast

DENSEST = 500  # times the compressed size: text reaches ten or twenty, identical rows a hundred
_PACKED = 16 << 10  # bytes to read from a file at a time
_PACKED_ZSTD = 2 << 10  # likewise; even a bomb of this size expands to only 64 MB
_HARMLESS = 32 << 20  # bytes that any file may expand to


class TooDenseError(Exception):
    """A few bytes expand to gigabytes. No text does that, and reading on would take hours."""


class _Counted(io.RawIOBase):
    """A pipe that counts the bytes read from it."""

    def __init__(self, stream: BinaryIO) -> None:
        self._read1: Callable[[int], bytes] = getattr(stream, "read1", stream.read)
        self._count = 0

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._count

    def readinto(self, buffer: Any) -> int:
        data = self._read1(len(buffer))
        buffer[: len(data)] = data
        self._count += len(data)
        return len(data)


def counted(stream: BinaryIO) -> io.BufferedReader:
    """Wrap any byte stream so that `peek` works and `tell` returns how many bytes were read."""
    return io.BufferedReader(_Counted(stream))


class _Gzip(io.RawIOBase):
    """Like the gzip module, which reads names in a header byte by byte: minutes for a name of gigabytes."""

    def __init__(self, file: io.BufferedReader) -> None:
        import zlib

        self._file = file
        self._member: Callable[[], Any] = lambda: zlib.decompressobj(wbits=31)
        self._open = self._member()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while True:
            if self._open.eof:
                packed = self._open.unused_data.lstrip(b"\0") or self._file.read(_PACKED).lstrip(b"\0")
                if not packed and not self._file.peek(1):
                    return 0
                if packed:
                    self._open = self._member()
            else:
                packed = self._open.unconsumed_tail or self._file.read(_PACKED)
                if not packed:
                    raise EOFError
            data = self._open.decompress(packed, len(buffer)) if packed else b""
            if data:
                buffer[: len(data)] = data
                return len(data)


class _Zstd(io.RawIOBase):
    """Raises EOFError for a truncated file, as the other readers do. zstandard's own reader does not."""

    def __init__(self, file: io.BufferedReader) -> None:
        import zstandard

        self._file = file
        self._frame = zstandard.ZstdDecompressor().decompressobj
        self._open = self._frame()
        self._out = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._out:
            packed = self._open.unused_data or self._file.read(_PACKED_ZSTD)
            if not packed and not self._open.eof:
                raise EOFError
            if not packed:
                return 0
            if self._open.eof:
                self._open = self._frame()
            self._out = memoryview(self._open.decompress(packed))
        count = min(len(buffer), len(self._out))
        buffer[:count] = self._out[:count]
        self._out = self._out[count:]
        return count


class Density:
    """Compares the bytes that come out of a compressed file with those that go in. A pipe must be `counted`."""

    def __init__(self, file: io.BufferedReader) -> None:
        self._file = file
        self._out = 0

    def add(self, count: int) -> None:
        """Count bytes that came out. Raise TooDenseError if they are far too many."""
        self._out += count
        if self._out > _HARMLESS:
            check_density(self._out, self._file.tell())


def check_density(out: int, into: int) -> None:
    if out > _HARMLESS and out > DENSEST * into:
        raise TooDenseError


def decompressed(file: io.BufferedReader) -> BinaryIO:
    """A reader of the decompressed content, or the file itself if it is not compressed."""
    head = file.peek(6)[:6]
    if head.startswith(b"\x1f\x8b"):
        return cast(BinaryIO, io.BufferedReader(_Gzip(file)))
    if head == b"\xfd7zXZ\x00":
        import lzma

        return cast(BinaryIO, lzma.LZMAFile(file))
    if head.startswith(b"BZh"):
        import bz2

        return cast(BinaryIO, bz2.BZ2File(file))
    if head.startswith(b"\x28\xb5\x2f\xfd"):
        return cast(BinaryIO, io.BufferedReader(_Zstd(file)))
    return file
