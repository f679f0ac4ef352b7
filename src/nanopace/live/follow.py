"""A growing file, followed like `tail -F`: through rotation and truncation, and even before it exists."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator

POLL_S = 0.025
LOOK_S = 0.25  # how often to check whether the name still refers to this file
_CHUNK = 256 << 10
MOST_HISTORY = 64 << 20  # bytes: of a longer file, only the start and the end are read
_BEGINNING = 4 << 20  # part of that for the start
_LAST = 256  # remembered bytes, which must still be there when more arrive


class Follower:
    """The bytes of a file: the existing ones, then new ones. `stop` ends it at once, `ended` at the end of the file."""

    may_wait = True

    def __init__(self, path: str, stop: threading.Event, before: int | None = None) -> None:
        """`before`: this many bytes are history; by default, all that the file holds when it is opened."""
        self._path = path
        self._stop = stop
        self._before = before
        self._fd = -1
        self._position = 0
        self._last = b""  # the bytes read before this position
        self.ended = threading.Event()  # the writer is gone: no more will come
        self.skipped = 0  # bytes of a long history

    def history(self) -> Iterator[bytes]:
        """What is there when the file is opened."""
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
            ended = self.ended.is_set()  # check before reading, so that nothing is missed
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
        except OSError:  # such as a network drive that is unavailable for a moment
            return b""
        self._position += len(chunk)
        self._last = (self._last + chunk)[-_LAST:]
        return chunk

    def _begins_anew(self, last: bytes, position: int) -> bool:
        """Whether the file was truncated and has since grown beyond its old size: it has other bytes now. A writer that
        continues at its old position leaves zero bytes."""
        try:
            there = os.pread(self._fd, len(last), position - len(last))
        except (OSError, AttributeError):  # such as a pipe
            return False
        return there != last and there.strip(b"\0") != b""

    def _look_again(self) -> bool:
        """Whether there is another file to read now, or this one starts over."""
        try:
            named = os.stat(self._path)
        except OSError:
            return False  # between the old file and the new one, or not there yet
        if self._fd < 0:
            return self._open()
        mine = os.fstat(self._fd)
        if (named.st_dev, named.st_ino) != (mine.st_dev, mine.st_ino):
            return mine.st_size <= self._position and self._open()  # finish the old one first
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
