"""A file that grows, as `tail -F` follows it: through rotation, truncation, and from before it is there."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator

POLL_S = 0.025
LOOK_S = 0.25  # how often it is looked whether the name still means this file
_CHUNK = 256 << 10
MOST_HISTORY = 64 << 20  # bytes: of a longer file, its beginning and its end are read
_BEGINNING = 4 << 20  # of those
_LAST = 256  # bytes that are remembered, and have to be there still when more come


class Follower:
    """The bytes of a file: those that are there, then those that come. `stop` ends it; so does `ended`, at the end of
    what is there."""

    may_wait = True

    def __init__(self, path: str, stop: threading.Event, before: int | None = None) -> None:
        """`before`: so many bytes of it are history; else all that it holds when it is opened."""
        self._path = path
        self._stop = stop
        self._before = before
        self._fd = -1
        self._position = 0
        self._last = b""  # what was read before this position
        self.ended = threading.Event()  # the writer is gone: what is there is all
        self.skipped = 0  # bytes of a long history

    def history(self) -> Iterator[bytes]:
        """What is there when it is opened."""
        if not self._open():
            return
        size = os.fstat(self._fd).st_size if self._before is None else self._before
        if size > MOST_HISTORY:
            yield from self._up_to(_BEGINNING)
            self.skipped = size - MOST_HISTORY
            self._seek(self._position + self.skipped)
            skipped = os.read(self._fd, _CHUNK)
            self._seek(self._position + skipped.find(b"\n") + 1)
            yield b"\n"
        yield from self._up_to(size)

    def live(self) -> Iterator[bytes]:
        """What is written from now on."""
        looked_s = time.monotonic()
        while not self._stop.is_set():
            ended = self.ended.is_set()  # before it is read, so that nothing is missed
            last, chunk = self._last, self._read()
            if chunk and self._begins_anew(last, self._position - len(chunk)):
                self._seek(0)
                continue
            if chunk:
                yield chunk
                continue
            if ended:
                return
            if time.monotonic() - looked_s >= LOOK_S or self._fd < 0:
                looked_s = time.monotonic()
                if self._look_again():
                    continue
            self._stop.wait(POLL_S)

    def _up_to(self, size: int) -> Iterator[bytes]:
        while self._position < size and not self._stop.is_set():
            chunk = self._read(size - self._position)
            if not chunk:
                return
            yield chunk

    def _read(self, most: int = _CHUNK) -> bytes:
        if self._fd < 0:
            return b""
        try:
            chunk = os.read(self._fd, min(most, _CHUNK))
        except OSError:  # a network drive that is away for a moment
            return b""
        self._position += len(chunk)
        self._last = (self._last + chunk)[-_LAST:]
        return chunk

    def _begins_anew(self, last: bytes, position: int) -> bool:
        """Whether it was truncated, and has grown beyond where it was since: other bytes are there now. Zero bytes are
        what a writer leaves that goes on where it was."""
        try:
            there = os.pread(self._fd, len(last), position - len(last))
        except (OSError, AttributeError):  # a pipe, for one
            return False
        return there != last and there.strip(b"\0") != b""

    def _look_again(self) -> bool:
        """Whether there is another file to read now, or this one begins anew."""
        try:
            named = os.stat(self._path)
        except OSError:
            return False  # between the old one and the new one, or not there yet
        if self._fd < 0:
            return self._open()
        mine = os.fstat(self._fd)
        if (named.st_dev, named.st_ino) != (mine.st_dev, mine.st_ino):
            return mine.st_size <= self._position and self._open()  # first the rest of the old one
        if mine.st_size < self._position:
            self._seek(0)
            return True
        return False

    def _seek(self, position: int) -> None:
        self._position, self._last = os.lseek(self._fd, position, os.SEEK_SET), b""

    def _open(self) -> bool:
        try:
            opened = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK)
        except OSError:
            return False
        if self._fd >= 0:
            os.close(self._fd)
        self._fd, self._position, self._last = opened, 0, b""
        return True
