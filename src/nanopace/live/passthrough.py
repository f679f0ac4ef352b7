"""Bytes from a source to the output, immediately and unchanged, and a copy of them for reading.

The thread that passes them on waits for nothing but the output itself, like tee. Reading may be slower than the trainer
prints: the queue of copies is bounded. If it is full, whole lines are left out of the copy and counted, but never
missing from the output.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple, Protocol

from nanopace.live.printer import Printer
from nanopace.sources.text import LONGEST_LINE

MOST_WAITING = 4 << 20  # bytes: some 70,000 rows
_AT_ONCE = 256 << 10  # bytes read or passed on at a time
_WIDE_PIPE = 1 << 20  # bytes of the system's pipe buffer


class Piece(NamedTuple):
    """Whole lines, except for the very last one of a log."""

    data: bytes
    at_s: float  # when they arrived, by the monotonic clock
    live: bool  # False: they were there before watching started


class Bytes(Protocol):
    """A source of lines."""

    may_wait: bool  # reading slowly delays nobody
    skipped: int  # bytes of a very long history that are not read

    def history(self) -> Iterator[bytes]:
        """What was there before."""

    def live(self) -> Iterator[bytes]:
        """What arrives until the log ends or the user stops."""


class Pipe:
    """Standard input. It is read until it closes, whatever happens to the output: a broken pipe would kill the
    trainer."""

    may_wait = False
    skipped = 0

    def __init__(self, fd: int) -> None:
        self._fd = fd
        _widen(fd)

    def history(self) -> Iterator[bytes]:
        return iter(())

    def live(self) -> Iterator[bytes]:
        while True:
            try:
                chunk = os.read(self._fd, _AT_ONCE)
            except BlockingIOError:  # another process that shares it made it non-blocking
                from select import select

                select([self._fd], [], [])
                continue
            except OSError:
                return  # the terminal is gone
            if not chunk:
                return
            yield chunk


class Copies:
    """Lines on their way from one thread to another."""

    def __init__(self, most: int = MOST_WAITING) -> None:
        self._most = most
        self._pieces: deque[Piece] = deque()
        self._waiting = 0  # bytes
        self._rest = b""  # an incomplete line
        self._closed = False
        self._live = False
        self._changed = threading.Condition()
        self.left_out = 0  # lines

    def begin_live(self) -> None:
        """The history is complete."""
        self._live = True

    def put(self, chunk: bytes, *, wait: bool = False) -> None:
        """With `wait`, wait for room; otherwise, if there is none, drop the oldest waiting lines."""
        data = self._rest + chunk
        # A carriage return at the very end may be half of a CRLF.
        cut = max(data.rfind(b"\n"), data.rfind(b"\r", 0, len(data) - 1)) + 1
        if len(data) - cut > LONGEST_LINE:
            cut = len(data)
        self._rest = data[cut:]
        if cut:
            self._add(Piece(data[:cut], time.monotonic(), self._live), wait)

    def close(self) -> None:
        """No more will come."""
        with self._changed:
            if self._rest:
                self._pieces.append(Piece(self._rest, time.monotonic(), live=True))
            self._closed = True
            self._changed.notify_all()

    def get(self, timeout_s: float) -> Piece | None:
        """The next lines; an empty piece if none arrived in time, None at the end."""
        with self._changed:
            if not self._pieces and not self._closed:
                self._changed.wait(timeout_s)
            if self._pieces:
                piece = self._pieces.popleft()
                self._waiting -= len(piece.data)
                self._changed.notify_all()
                return piece
            return None if self._closed else Piece(b"", time.monotonic(), self._live)

    def _add(self, piece: Piece, wait: bool) -> None:
        with self._changed:
            while wait and self._waiting > self._most and not self._closed:
                self._changed.wait()
            while self._waiting > self._most:  # the newest ones matter most
                oldest = self._pieces.popleft()
                self._waiting -= len(oldest.data)
                self.left_out += oldest.data.count(b"\n")
            self._pieces.append(piece)
            self._waiting += len(piece.data)
            self._changed.notify_all()


class Pump(threading.Thread):
    """Passes everything on. `shown`: how many of the last lines of the history to print."""

    def __init__(
        self, source: Bytes, printer: Printer, copies: Copies, *, silent: bool = False, shown: int = 10
    ) -> None:
        super().__init__(name="nanopace-lines", daemon=True)
        self._source, self._printer, self._copies = source, printer, copies
        self._silent, self._shown = silent, shown

    def run(self) -> None:
        try:
            last = b""
            for chunk in self._source.history():
                self._copies.put(chunk, wait=True)
                last = _last_lines(last + chunk, self._shown)
            if not self._silent:
                self._printer.pass_on(last)
            self._copies.begin_live()
            for chunk in self._source.live():
                if not self._silent:
                    self._printer.pass_on(chunk)
                self._copies.put(chunk, wait=self._source.may_wait)
        finally:
            self._copies.close()


def _last_lines(data: bytes, count: int) -> bytes:
    data = data[-count * 4096 :]
    at = len(data)
    for _ in range(count + (not data.endswith(b"\n"))):
        at = data.rfind(b"\n", 0, max(0, at - 1)) + 1
        if not at:
            break
    return data[at:]


def _widen(fd: int) -> None:
    """Enlarge the pipe if the system supports it: fewer switches for the same bytes."""
    try:
        import fcntl

        fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, _WIDE_PIPE)
    except (ImportError, AttributeError, OSError):
        pass  # not a pipe, or not supported here
