"""What these readers share: rows wrapped by a terminal are joined, and time stamps are read."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import ClassVar

from nanopace.sources.build import RunBuilder
from nanopace.sources.processes.died import ending_of
from nanopace.sources.time_stamps import Stamps

_LONGEST = 3000  # characters of a row, or of a line that may contain one
_MOST_PIECES = 6  # of a row that a terminal has wrapped

# Part of a dataset, as HTTP libraries log it.
_FETCH = re.compile(r"\bGET (?:https?://[^\s/]{1,100})?/datasets/\S{1,500}/resolve/", re.ASCII)
_STAMP = re.compile(r"(?<!\d)(?:20)?\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,6})?", re.ASCII)
_PREFIX = 160  # characters before a row that may contain its time stamp
_CENTURY = 2


class JoiningReader(ABC):
    """Passes lines to `read_line`, and joins what a terminal may have wrapped for `read_row`."""

    opens: ClassVar[re.Pattern[str]]  # matches the beginning of a row
    continues: ClassVar[re.Pattern[str]] = re.compile("")  # matches a line that may continue a row
    complete: ClassVar[re.Pattern[str]]  # matches a row that is certainly complete

    def __init__(self, builder: RunBuilder, width: int = 0) -> None:
        self._builder = builder
        self._width = width
        self._open = ""
        self._pieces = 0
        self._stamps = Stamps()

    @abstractmethod
    def read_row(self, text: str) -> bool:
        """Read a row, wherever it is in the text. Return True if there is one."""

    def read_partial(self, text: str) -> None:  # noqa: B027  # most rows are of no use in part
        """Read the beginning of a row that no line completes."""

    @abstractmethod
    def read_line(self, line: str) -> bool:
        """Read any other line. Return True if it was understood."""

    def read_fetch(self) -> None:
        """Data was fetched: the next row contains that."""
        self._builder.fetch()

    def feed(self, line: str) -> bool:
        if not line or line.isspace():
            return False
        line = line[-_LONGEST:]  # cut off a progress bar that did not end its line
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
        if (ending := ending_of(line)) is not None:
            self._builder.ending(ending)
            return True
        if "/datasets/" in line and _FETCH.search(line):
            self.read_fetch()
            return True
        return self.read_line(line)

    def feed_cut(self, line: str) -> bool:
        """Only a row can be known to be complete."""
        return self.complete.search(line[-_LONGEST:]) is not None and self.feed(line)

    def _drop_open(self) -> None:
        text, self._open = self._open, ""
        if text:
            self.read_partial(text)

    @abstractmethod
    def _end_process(self) -> None:
        """The current process has no more rows: add the facts that only all of them together reveal."""

    def finish(self) -> None:
        self._drop_open()
        self._end_process()

    def stamp(self, prefix: str) -> float | None:
        """When a line was printed, in seconds from an arbitrary zero, from the text before it."""
        found = _STAMP.search(prefix[-_PREFIX:])
        if found is None:
            return None
        return self._stamps.read(found[0] if found[0][_CENTURY].isdigit() else f"20{found[0]}")
