"""Lines, comments and a footer on one output, without mixing them up.

A line is passed on as it arrives, in pieces if necessary. A comment waits for its end. The footer is drawn below the
cursor, which then returns to where the line left it: nothing that the trainer prints is moved, a progress bar is
redrawn in place, and a killed process does not leave a terminal that needs a reset.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Sequence

from nanopace.errors import reason_of
from nanopace.sources.text import clean
from nanopace.views.terminal.writer import columns, fit_encoding, wrap
from nanopace.wording.printable import clean as printable

PREFIX = "# nanopace: "  # before every comment: no trainer starts a row like this
_CONTINUED = "#   "  # before the following lines of a long one
_TOO_NARROW = 20  # columns: words would have to be broken
PATIENCE_S = 1.0  # how long a comment waits for the end of a line on a terminal, or after a progress bar
_LONGEST_TAIL = 4096  # bytes of an incomplete line that are examined
_COLOURS = {"": "36", "alert": "1;31"}
_BELOW = b"\x1b[J"  # erases everything after the cursor
_COLOUR = re.compile(rb"\x1b\[[0-9;:]{0,32}m")


class Printer:
    """Writes to a file descriptor. What it does not accept is dropped: the trainer must not be delayed or ended."""

    def __init__(self, fd: int, *, terminal: bool, color: bool, encoding: str | None) -> None:
        self._fd = fd
        self._terminal, self._color, self._encoding = terminal, color, encoding
        self._lock = threading.Lock()
        self._tail = b""  # of the incomplete line
        self._comments: list[bytes] = []
        self._waiting_since = 0.0
        self._footer: list[str] = []
        self._drawn = False
        self.failure: str | None = None  # why the output accepts nothing any more

    def pass_on(self, data: bytes) -> None:
        if not data:
            return
        with self._lock:
            cut = data.rfind(b"\n") + 1
            if self._comments and cut:
                self._write(data[:cut] + self._take_comments() + data[cut:], data)
            elif self._comments and not self._tail:
                self._write(self._take_comments() + data, data)
            else:
                self._write(data, data)

    def comment(self, text: str, style: str = "") -> None:
        """Print a comment as soon as the trainer's line has ended."""
        line = "\n".join(self._wrapped(PREFIX + printable(text)))
        line = fit_encoding(line.replace("\u00a0", " "), self._encoding)
        if self._color:
            line = f"\x1b[{_COLOURS[style]}m{line}\x1b[0m"
        with self._lock:
            if not self._comments:
                self._waiting_since = time.monotonic()
            self._comments.append(line.encode(self._encoding or "utf-8", "replace") + b"\n")
            self._flush(time.monotonic())

    def _wrapped(self, line: str) -> list[str]:
        """Wrap a comment, which the terminal would break inside a word. The following lines are marked as comments,
        too."""
        try:
            width = os.get_terminal_size(self._fd).columns - 1 if self._terminal else 0
        except OSError:
            return [line]
        if width < _TOO_NARROW or columns(line) <= width:
            return [line]
        first, *rest = wrap(line, width - len(_CONTINUED))
        return [first, *(_CONTINUED + each for each in rest)]

    def show(self, footer: Sequence[str]) -> None:
        """Draw these lines below everything else, and print comments that have waited long enough."""
        with self._lock:
            self._flush(time.monotonic())
            if self._terminal:
                self._footer = [fit_encoding(line.replace("\u00a0", " "), self._encoding) for line in footer]
                self._write(b"", b"")

    def close(self) -> None:
        """Remove the footer and print everything that waits."""
        with self._lock:
            self._footer = []
            self._flush(time.monotonic() + 2 * PATIENCE_S, at_last=True)
            self._write(b"", b"")

    # --- with the lock held ------------------------------------------------------------------------------------------

    def _flush(self, now: float, *, at_last: bool = False) -> None:
        if not self._comments:
            return
        if not self._tail:
            self._write(self._take_comments(), b"")
        elif now - self._waiting_since > PATIENCE_S and (self._terminal or at_last or b"\r" in self._tail):
            self._write(b"\n" + self._take_comments(), b"\n")

    def _take_comments(self) -> bytes:
        taken, self._comments = b"".join(self._comments), []
        return taken

    def _write(self, shown: bytes, data: bytes) -> None:
        """`data` is the trainer's part of `shown`."""
        line = self._tail + data
        self._tail = line[line.rfind(b"\n") + 1 :][-_LONGEST_TAIL:]
        if not self._terminal:
            self._send(shown)
            return
        below = self._below()
        self._send((_BELOW if self._drawn else b"") + shown + below)
        self._drawn = bool(below)

    def _below(self) -> bytes:
        """The footer, and the way back to where the line left the cursor; nothing if that is unknown."""
        if not self._footer:
            return b""
        tail = _COLOUR.sub(b"", self._tail)
        try:
            width, height = os.get_terminal_size(self._fd)
            text = tail[tail.rfind(b"\r") + 1 :].decode()
        except (OSError, ValueError):  # such as in the middle of a character
            return b""
        column = columns(clean(text).expandtabs())
        if b"\x1b" in tail or len(self._tail) >= _LONGEST_TAIL or height < len(self._footer) + 2:
            return b""
        if column and column % width == 0:
            return b""  # at the edge, the cursor position depends on the terminal
        drawn = "".join(f"\r\n\x1b[2m{line}\x1b[0m" if self._color else f"\r\n{line}" for line in self._footer)
        back = f"\x1b[{len(self._footer)}A\r" + (f"\x1b[{column % width}C" if column % width else "")
        return (drawn + back).encode(self._encoding or "utf-8", "replace")

    def _send(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest and self.failure is None:
            try:
                rest = rest[os.write(self._fd, rest) :]
            except BlockingIOError:
                from select import select

                select([], [self._fd], [])
            except OSError as error:  # a full disk, a reader that has gone, a closed terminal
                self.failure = reason_of(error)
