"""Line ends as Python's text files have them, and so nanoGPT: `\\r\\n` and a lone `\\r` are `\\n`.

Done to the bytes before anybody counts them, so that a text has one size, one hash and one cut, whoever wrote it.
"""

from __future__ import annotations

import io
from typing import Any, BinaryIO


def with_plain_newlines(stream: BinaryIO) -> BinaryIO:
    """The bytes of a text in UTF-8, or of anything in which a byte is a character, with `\\n` alone."""
    return io.BufferedReader(_PlainNewlines(stream))


class _PlainNewlines(io.RawIOBase):
    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._after_return = False  # what was given last ended with \r: a \n behind it is the same line end

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
