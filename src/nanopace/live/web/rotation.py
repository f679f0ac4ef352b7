"""A log file through its rotations: what it was before is read in front of what it is now."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, BinaryIO

MOST_BYTES = 64 << 20  # of all parts: with more, the oldest go
_HEAD = 4096  # bytes that tell a new file from a new version of the old one


class Parts:
    """They are held open, so each can be read whatever it is called now, even if it was compressed or deleted."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._held: list[BinaryIO] = []  # the last one is what the path was when it was last looked at

    def log(self) -> str | BinaryIO:
        """All of them as one file; the path alone, where it was never rotated."""
        with suppress(OSError):
            self._look()
        if len(self._held) < 2:
            return self._path
        return io.BufferedReader(_Joined(os.path.basename(self._path), self._held))

    def _look(self) -> None:
        if not os.path.isfile(self._path):  # a rotation has a moment without a file
            return
        now = open(self._path, "rb", buffering=0)  # noqa: SIM115 (it stays open)
        if self._held and os.path.sameopenfile(self._held[-1].fileno(), now.fileno()):
            now.close()
            return
        if self._held and _is_new_version(self._held[-1], now):
            self._held.pop().close()
        self._held.append(now)
        while len(self._held) > 1 and sum(os.fstat(each.fileno()).st_size for each in self._held) > MOST_BYTES:
            self._held.pop(0).close()


def _is_new_version(old: BinaryIO, new: BinaryIO) -> bool:
    """Whether one begins like the other: rsync and editors put a file in the place of the one that it is a copy of."""
    before, now = (os.pread(each.fileno(), _HEAD, 0) for each in (old, new))
    return bool(now) and (before.startswith(now) or now.startswith(before))


class _Joined(io.RawIOBase):
    """Files one after the other, each beginning a new line."""

    def __init__(self, name: str, files: Iterable[BinaryIO]) -> None:
        self.name = name
        self._left = [part for file in files for part in (file, io.BytesIO(b"\n"))]
        for part in self._left:
            part.seek(0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while self._left:
            count: int = self._left[0].readinto(buffer)  # type: ignore[attr-defined]
            if count:
                return count
            del self._left[0]
        return 0
