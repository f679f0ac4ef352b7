"""What a reader of logs offers, whatever its format."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol


class LineReader(Protocol):
    """The reader of a format. It is created with a RunBuilder and a terminal's width, then fed each line of the log."""

    def feed(self, line: str) -> bool:
        """Read one line, without terminal debris and newline. Return True if it was understood."""

    def feed_cut(self, line: str) -> bool:
        """Read the last line of a log that has no newline. Use it only if it is certainly complete."""

    def finish(self) -> None:
        """No more lines: pass on to the builder what was held back."""


class DocumentReader(Protocol):
    """The reader of a format whose files are one document. It is created with a RunBuilder."""

    def read(self, chunks: Iterable[bytes]) -> None:
        """Read all bytes of the file. Raise InputError if something is wrong with it."""
