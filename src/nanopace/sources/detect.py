"""Identifies the trainer that wrote a log, by its first row, wherever that is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import NamedTuple

from nanopace.sources.formats.registry import known_formats
from nanopace.sources.log_format import LogFormat
from nanopace.sources.text import lines

SNIFF_BYTES = 256 * 1024  # for judging a file that is not a log, and a terminal's width
_OPENING = 16 * 1024  # bytes at the start in which a document shows its type
_MOST_KNOWN = 1000  # combinations of words: a log has a few, a hostile file any number
_BEFORE, _BEHIND = 600, 8192  # bytes of a window around a possible row


class Detector:
    """Examines a log from its beginning. The first row decides; until then, a header is a hint.

    Most text before a row is irrelevant, so this has three stages: does a chunk of bytes contain a word of any format,
    where is an anchor, and which format matches the lines around it?
    """

    def __init__(self) -> None:
        self.format: LogFormat | None = None
        self.has_row = False
        self._begun = False
        self._rest = b""  # the end of the last chunk, which may have cut a row
        self._formats = known_formats()
        self._words = tuple(dict.fromkeys(word for format in self._formats for word in format.words))
        self._bytes = tuple(word.encode() for word in self._words)
        self._of_rows = tuple(dict.fromkeys(word for format in self._formats for word in format.row_words))
        self._candidates: dict[tuple[str, ...], _Candidates] = {}  # by the words in a text
        self._anchor = _anchor_of(self._formats)

    def look_at(self, chunk: bytes) -> None:
        """Examine a chunk of the log, but only the places that may matter."""
        if self.has_row:
            return
        if not self._begun:
            self._begun = True
            self.format = next((each for each in self._formats if each.opening and _opens(each, chunk)), None)
            self.has_row = self.format is not None
            if self.has_row:
                return
        data = self._rest + chunk.replace(b"\0", b"")
        self._rest = data[-_BEFORE:]
        if not any(word in data for word in self._bytes):
            return
        at = 0
        while not self.has_row and (found := self._anchor.search(data, at)) is not None:
            begin = data.rfind(b"\n", 0, max(0, found.start() - _BEFORE)) + 1
            self.look_at_lines(
                line for line, _ in lines([data[max(begin, found.start() - 2 * _BEFORE) : found.end() + _BEHIND]])
            )
            at = found.end() + _BEHIND - _BEFORE  # a row that the window cut off is in the next one

    def look_at_lines(self, printed: Iterable[str]) -> None:
        """Examine lines without terminal debris.

        Neighbouring lines are also examined together, since a terminal may have broken a row anywhere.
        """
        for text in self._with_neighbours(printed):
            candidates = self._with_words_of(text)
            if (found := _first(candidates.rows, text)) is not None:
                if self.format is None or self.format.extends != found.name:
                    self.format = found
                self.has_row = True
                return
            if self.format is None:
                self.format = _first(candidates.headers, text)

    def _with_words_of(self, text: str) -> _Candidates:
        """The formats that a text may have. Most texts contain the same few words, or none."""
        words = tuple(word for word in (*self._words, *self._of_rows) if word in text)
        if (known := self._candidates.get(words)) is None:
            if len(self._candidates) >= _MOST_KNOWN:
                self._candidates.clear()
            some = [format for format in self._formats if not {*words}.isdisjoint(format.words)]
            rows = [(format, format.row) for format in some if not {*words}.isdisjoint(format.row_words or words)]
            known = self._candidates[words] = _Candidates(rows, [(format, format.header) for format in some])
        return known

    def _with_neighbours(self, printed: Iterable[str]) -> Iterator[str]:
        """Each line worth examining, alone and then joined with the two before it."""
        second, first = "", ""
        for line in printed:
            joined = second + first + line
            if any(word in joined for word in self._words):
                yield line
                if len(joined) > len(line):
                    yield joined
            second, first = first, line[-400:]


class _Candidates(NamedTuple):
    """Formats, each with an expression that the text may match."""

    rows: list[tuple[LogFormat, str]]
    headers: list[tuple[LogFormat, str]]


def _first(expressions: Iterable[tuple[LogFormat, str]], text: str) -> LogFormat | None:
    """The format that matches first in the text. At the same place, a format that extends another wins."""
    found = [
        (match.start(), not format.extends, order, format)
        for order, (format, expression) in enumerate(expressions)
        if expression and (match := _compiled(expression).search(text))
    ]
    return min(found)[-1] if found else None


def _opens(format: LogFormat, chunk: bytes) -> bool:
    return re.search(format.opening.encode(), chunk[:_OPENING]) is not None


@cache
def _compiled(expression: str) -> re.Pattern[str]:
    """Compiled on first use: most logs need only the expressions of one format."""
    return re.compile(expression)


@cache
def _anchor_of(formats: tuple[LogFormat, ...]) -> re.Pattern[bytes]:
    """One expression for the anchors of all formats: the places worth examining."""
    anchors = (anchor for format in formats for anchor in format.anchors or map(re.escape, format.words) if anchor)
    return re.compile("|".join(dict.fromkeys(anchors)).encode())
