"""Normalises line ends as Python's text files do, and therefore nanoGPT: `\\r\\n` and a lone `\\r` become `\\n`.

This happens to the bytes before they are counted, so that a text has one size, one hash and one split on every system.
"""

from __future__ import annotations

import io
from typing import Any, BinaryIO


def with_plain_newlines(stream: BinaryIO) -> BinaryIO:
    """The stream with `\\n` alone. It must be UTF-8, or any encoding in which a byte is a character."""
    return io.BufferedReader(_PlainNewlines(stream))


class _PlainNewlines(io.RawIOBase):
    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._after_return = False  # the last output came from a \r: a \n after it belongs to the same line end

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while data := self._stream.read(len(buffer)):
            begin = 1 if self._after_return and data.startswith(b"\n") else 0
            self._after_return = data.endswith(b"\r")
            if b"\r" in data:
                data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
            if len(data) > begin:
                buffer[: len(data) - begin] = data[begin:]
                return len(data) - begin
        return 0
