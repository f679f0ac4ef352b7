"""Joins lines that a terminal has wrapped."""

from __future__ import annotations

import re


class BrokenLine:
    """The beginning of a line that is not understood yet, and the pieces after it."""

    __slots__ = ("_longest", "_most_pieces", "_opens", "_pieces", "text")

    def __init__(self, opens: re.Pattern[str], *, most_pieces: int, longest: int) -> None:
        self._opens = opens  # matches in the first piece
        self._most_pieces = most_pieces
        self._longest = longest
        self._pieces = 0
        self.text = ""  # so far; empty if no line is open

    def joined(self, line: str) -> str:
        """The open line joined with this piece; empty if none is open."""
        return self.text + line if self.text else ""

    def add(self, line: str) -> None:
        """Keep a piece that makes no sense yet, neither alone nor joined."""
        if self._opens.search(line):
            self.text, self._pieces = line, 1
        else:
            self.text, self._pieces = self.joined(line), self._pieces + 1
        if len(self.text) > self._longest or self._pieces > self._most_pieces:
            self.close()

    def close(self) -> None:
        self.text = ""
