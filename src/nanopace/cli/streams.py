"""Standard output and standard error, which may fail at any time: a full disk, a reader that has gone, a closed
terminal.

An answer that cannot be printed is an error, reported once in one line. What stderr does not accept is dropped, because
there is nobody left to tell. A training continues without either (`drop_what_is_lost`), because its results are on
disk.

A closed stream (`>&-`) counts as failed. Its descriptor would be reused by the next file that is opened, so that a
warning could end up in a checkpoint: /dev/null takes its place.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING

from nanopace.errors import Message, OutputError, reason_of

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_CLOSED = Message("it is closed")


class Outlet(io.RawIOBase):
    """The end of a stream, behind all buffers: everything that is printed passes through here."""

    def __init__(self, name: str, to: IO[bytes] | None, *, drops: bool) -> None:
        """`to`: None for a closed stream. `drops`: failures are not errors."""
        self._name, self._to, self.drops = name, to, drops
        self.failure: OSError | None = None  # the first one
        self.reported = False

    def write(self, data: ReadableBuffer, /) -> int:
        """Write all of it. A failure is reported once; everything after it is dropped silently."""
        whole = memoryview(data).cast("B")
        if self.failure is not None and not self.drops:
            return len(whole)
        try:
            self._write(whole)
        except OSError as error:
            if self.failure is None:
                self.failure = error
                if not self.drops:
                    raise self.as_error(error) from None
        return len(whole)

    def as_error(self, error: OSError) -> Exception:
        """A pipe without a reader is common and has its own exit code."""
        if isinstance(error, BrokenPipeError):
            return error
        return OutputError("{stream}: cannot be written: {reason}", stream=self._name, reason=self._reason(error))

    def lost(self) -> Message:
        assert self.failure is not None
        return Message(
            "{stream}: {reason}; training continues without printing there",
            stream=self._name,
            reason=self._reason(self.failure),
        )

    def _reason(self, error: OSError) -> str:
        return _CLOSED if self._to is None else reason_of(error)

    def _write(self, data: memoryview) -> None:
        if self._to is None:
            raise OSError(_CLOSED)
        while data:
            written = self._to.write(data)
            if written is None:  # another process has made the terminal or the pipe non-blocking
                from select import select

                select([], [self._to], [])
            data = data[written or 0 :]

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return self._to is not None and self._to.isatty()

    def fileno(self) -> int:
        if self._to is None:
            raise io.UnsupportedOperation("fileno")
        return self._to.fileno()


_outlets: list[Outlet] = []  # of this process, stdout first


def guard() -> None:
    """Handle all failures of the two streams from now on. Call it when a process starts."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
    _outlets[:] = []
    sys.stdout = _guarded(Message("standard output"), sys.stdout, drops=False)
    sys.stderr = _guarded(Message("standard error"), sys.stderr, drops=True)


def drop_what_is_lost() -> None:
    """From now on, no failed stream ends the process."""
    for outlet in _outlets:
        outlet.drops = True


def new_losses() -> Iterator[Message]:
    """A line for each stream that has failed since this was last asked."""
    for outlet in _outlets:
        if outlet.failure is not None and not outlet.reported:
            outlet.reported = True
            yield outlet.lost()


def lost_answer() -> Exception | None:
    """Why standard output has not received the whole answer, if that error may have been overlooked."""
    if not _outlets or _outlets[0].drops or _outlets[0].failure is None:
        return None
    return _outlets[0].as_error(_outlets[0].failure)


def _guarded(name: str, stream: object, *, drops: bool) -> io.TextIOWrapper:
    """The same stream, writing through an Outlet."""
    before = stream if isinstance(stream, io.TextIOWrapper) else None
    buffer = None if before is None else before.buffer
    outlet = Outlet(name, getattr(buffer, "raw", buffer), drops=drops)
    _outlets.append(outlet)
    through = before is not None and before.write_through  # python -u
    return io.TextIOWrapper(
        outlet if through else io.BufferedWriter(outlet),  # type: ignore[arg-type]
        encoding="utf-8" if before is None else before.encoding,
        errors="replace" if before is None else before.errors,
        line_buffering=before is None or before.line_buffering,
        write_through=through,
    )
