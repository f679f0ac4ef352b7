"""What the readers of this room have in common: rows that a terminal broke are put together, stamps are read."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import ClassVar

from nanopace.sources.build import RunBuilder
from nanopace.sources.processes.died import ENDING, ENDINGS
from nanopace.sources.time_stamps import Stamps

_LONGEST = 3000  # characters of a row, or of a line in which one is looked for
_MOST_PIECES = 6  # of a row that a terminal broke

_ENDED = re.compile(ENDING)
_STAMP = re.compile(r"(?<!\d)(?:20)?\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,6})?", re.ASCII)
_PREFIX = 160  # characters before a row in which its stamp is
_CENTURY = 2


class JoiningReader(ABC):
    """Feeds lines to `read_line`, and what a terminal may have broken, joined, to `read_row`."""

    opens: ClassVar[re.Pattern[str]]  # the beginning of a row
    continues: ClassVar[re.Pattern[str]] = re.compile("")  # matches in a line that may go on with one
    complete: ClassVar[re.Pattern[str]]  # matches a row that is surely not cut

    def __init__(self, builder: RunBuilder, width: int = 0) -> None:
        self._builder = builder
        self._width = width
        self._open = ""
        self._pieces = 0
        self._stamps = Stamps()

    @abstractmethod
    def read_row(self, text: str) -> bool:
        """A row, wherever it is in the text. True if there is one."""

    def read_partial(self, text: str) -> None:  # noqa: B027  # most rows are of no use in part
        """The beginning of a row that no line completes."""

    @abstractmethod
    def read_line(self, line: str) -> bool:
        """Any other line. True if it was understood."""

    def feed(self, line: str) -> bool:
        if not line or line.isspace():
            return False
        line = line[-_LONGEST:]  # before it, a progress bar did not end its line
        opens = self.opens.search(line) is not None
        if opens:
            self._drop_open()
        if self.read_row(line):
            self._open = ""
            return True
        if opens:
            self._open, self._pieces = line, 1
        elif self._open:
            self._open, self._pieces = self._open + line, self._pieces + 1
            if self.read_row(self._open):
                self._open = ""
                return True
            if self._pieces >= _MOST_PIECES or len(self._open) > _LONGEST or not self.continues.search(line):
                self._drop_open()
        if ended := _ENDED.search(line):
            self._builder.ending(ENDINGS[ended.lastgroup or ""])
            return True
        return self.read_line(line)

    def feed_cut(self, line: str) -> bool:
        """Only a row shows that it is complete."""
        return self.complete.search(line[-_LONGEST:]) is not None and self.feed(line)

    def _drop_open(self) -> None:
        text, self._open = self._open, ""
        if text:
            self.read_partial(text)

    @abstractmethod
    def _end_process(self) -> None:
        """No more rows of the current process: tell what only all of them together show."""

    def finish(self) -> None:
        self._drop_open()
        self._end_process()

    def stamp(self, prefix: str) -> float | None:
        """The time at which a line was printed, in seconds since any fixed moment, from what is before its text."""
        found = _STAMP.search(prefix[-_PREFIX:])
        if found is None:
            return None
        return self._stamps.read(found[0] if found[0][_CENTURY].isdigit() else f"20{found[0]}")
