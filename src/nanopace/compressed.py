"""The bytes in a file, whatever it is compressed with: told by how it begins, not by its name."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import BinaryIO, cast

DENSEST = 500  # times its size: text comes to ten or twenty, and rows that are all alike to a hundred
_HARMLESS = 32 << 20  # bytes that may come out of anything


class TooDenseError(Exception):
    """A few bytes that become gigabytes: no text does that, and whoever reads on would sit there for hours."""


class Density:
    """What comes out of a compressed file, held against what goes in."""

    def __init__(self, file: io.BufferedReader) -> None:
        self._file = file
        self._out = 0

    def add(self, count: int) -> None:
        """So many more bytes came out. TooDenseError if they are out of all proportion."""
        self._out += count
        if self._out > _HARMLESS and self._file.seekable():
            check_density(self._out, self._file.tell())


def check_density(out: int, into: int) -> None:
    if out > _HARMLESS and out > DENSEST * into:
        raise TooDenseError


def decompressed(file: io.BufferedReader, zstd: Callable[[io.BufferedReader], BinaryIO]) -> BinaryIO:
    """A reader of what is inside, or the file itself. `zstd` opens that kind, which Python cannot do by itself yet."""
    head = file.peek(6)[:6]
    if head.startswith(b"\x1f\x8b"):
        import gzip

        return cast(BinaryIO, gzip.GzipFile(fileobj=file))
    if head == b"\xfd7zXZ\x00":
        import lzma

        return cast(BinaryIO, lzma.LZMAFile(file))
    if head.startswith(b"BZh"):
        import bz2

        return cast(BinaryIO, bz2.BZ2File(file))
    if head.startswith(b"\x28\xb5\x2f\xfd"):
        return zstd(file)
    return file
