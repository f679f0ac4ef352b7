"""Bytes from a source on to the output, at once and as they are, and a copy of them for whoever reads them.

The thread that passes them on waits for nobody but the output itself, as tee does. Who reads may be slower than the
trainer prints: the copies that wait for it are bounded, and where they would be too many, whole lines are left out of
the copy, counted, and never missing from the output.
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
_AT_ONCE = 256 << 10  # bytes that are read, or handed over, at a time
_WIDE_PIPE = 1 << 20  # bytes that the system may keep for us


class Piece(NamedTuple):
    """Whole lines, but for the very last one of a log."""

    data: bytes
    at_s: float  # when they came, by the monotonic clock
    live: bool  # False: they were there before anybody watched


class Bytes(Protocol):
    """Where the lines come from."""

    may_wait: bool  # nobody is held up if they are read slowly
    skipped: int  # bytes of a very long history that are not read

    def history(self) -> Iterator[bytes]:
        """What was there before."""

    def live(self) -> Iterator[bytes]:
        """What comes, until the log ends or nobody wants to see more."""


class Pipe:
    """Standard input. It is read until it closes, whatever happens to the output: a trainer whose pipe breaks dies."""

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
            except BlockingIOError:  # whoever shares it has told it to keep nobody waiting
                from select import select

                select([self._fd], [], [])
                continue
            except OSError:
                return  # a terminal that is gone
            if not chunk:
                return
            yield chunk


class Copies:
    """Lines on their way from one thread to another."""

    def __init__(self, most: int = MOST_WAITING) -> None:
        self._most = most
        self._pieces: deque[Piece] = deque()
        self._waiting = 0  # bytes
        self._rest = b""  # a line without its end
        self._closed = False
        self._live = False
        self._changed = threading.Condition()
        self.left_out = 0  # lines

    def begin_live(self) -> None:
        """What was there before is all in."""
        self._live = True

    def put(self, chunk: bytes, *, wait: bool = False) -> None:
        """`wait` for room; else, where there is none, the lines that have waited longest are left out."""
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
        """The next lines; an empty piece where none came in time, None at the end."""
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
            while self._waiting > self._most:  # the newest are those that matter
                oldest = self._pieces.popleft()
                self._waiting -= len(oldest.data)
                self.left_out += oldest.data.count(b"\n")
            self._pieces.append(piece)
            self._waiting += len(piece.data)
            self._changed.notify_all()


class Pump(threading.Thread):
    """Passes everything on. `shown`: of what was there before, so many of the last lines are printed."""

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
    """A larger pipe, where the system has such: fewer turns for the same bytes."""
    try:
        import fcntl

        fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, _WIDE_PIPE)
    except (ImportError, AttributeError, OSError):
        pass  # no pipe, or not here
