"""The bytes in a file, whatever it is compressed with: told by how it begins, not by its name."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import BinaryIO, cast


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
