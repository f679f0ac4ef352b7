"""Which trainer wrote this log? Told from its first row, wherever that is; a reader is imported only when its format is
found."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from nanopace.run import Format
from nanopace.sources.text import lines

if TYPE_CHECKING:
    from nanopace.sources.build import LineReader, RunBuilder

SNIFF_BYTES = 256 * 1024  # by which a file is judged that is no log, and a terminal's width

# What only one trainer prints. A row is proof; a header line is a strong hint, used where no row is in sight.
_ROW = re.compile(
    r"""(?P<nanopace>iter \d+: loss \S{1,24}, time [\d.]+ms, mfu (?:[\d.]+%|n/a), \d+ tok/s, )"""
    r"""|(?P<nanogpt>[iI]ter(?:ation)?\s*\d+(?:/\d+)?\s*[:|]\s*(?:train(?:ing)?[\s_]*)?loss[\s:=]{0,40}-?(?:\d+\.\d+|nan|inf)"""
    r""".{0,200}?(?:time|dt)[\s:=]{0,40}\d[\d.]{0,18}\s*(?:ms|s(?:ecs?|econds)?(?![A-Za-z])))"""
    r"""|(?P<nanochat>step\s*\d+(?:/\d+)?\s*\([\d.]{1,9}%\)\s*\|\s*loss:[^|]{1,40}\|(?:[^|]{1,40}\|)?\s*lrm:)"""
    r"""|(?P<ledger>^\s*\{\s*"event"\s*:\s*"run")"""
)
_HINT = re.compile(
    r"""(?P<nanopace>^\s*nanopace \d\S{0,40} train: )"""
    r"""|(?P<nanogpt>step\s*\d+:\s*train\s+loss\s|number\s+of\s+parameters:\s*[\d.]+M|tokens\s+per\s+iteration\s+will)"""
    r"""|(?P<nanochat>Step\s*\d+\s*\|\s*(?:Validation|CORE)|Estimated\s+FLOPs\s+per\s+token|Tokens\s*/\s*micro-batch)"""
)
# One is in each of them. The beginnings of windows in which the lines are worth a closer look, in any chunk of bytes.
_WORDS = ("iter", "Iter", "step", "Step", "event", "parameters:", "FLOPs", "micro-batch", "nanopace")
_WORDS_IN_BYTES = tuple(word.encode() for word in _WORDS)
_CANDIDATE = re.compile(
    rb"[iI]ter(?:ation)?\s*\d|[sS]tep\s*\d|\"event\"|number\s+of\s+parameters|tokens\s+per\s+iter|FLOPs\s+per|micro-batch"
    rb"|nanopace \d"
)
_BEFORE, _BEHIND = 600, 8192  # bytes of a window


class Detector:
    """Looks at a log from its beginning on. A row of a format settles it; until then its header is a hint."""

    def __init__(self) -> None:
        self.format: Format | None = None
        self.has_row = False
        self._rest = b""  # the end of the last chunk, which may have cut a row

    def look_at(self, chunk: bytes) -> None:
        """A chunk of the log, of which only the places that may matter are looked at."""
        if self.has_row:
            return
        data = self._rest + chunk.replace(b"\0", b"")
        self._rest = data[-_BEFORE:]
        if not any(word in data for word in _WORDS_IN_BYTES):
            return
        at = 0
        while not self.has_row and (found := _CANDIDATE.search(data, at)) is not None:
            begin = data.rfind(b"\n", 0, max(0, found.start() - _BEFORE)) + 1
            self.look_at_lines(
                line for line, _ in lines([data[max(begin, found.start() - 2 * _BEFORE) : found.end() + _BEHIND]])
            )
            at = found.end() + _BEHIND - _BEFORE  # a row that the window cut is in the next one

    def look_at_lines(self, printed: Iterable[str]) -> None:
        """Lines that are cleaned of terminal debris.

        Neighbouring lines are looked at together, since a terminal may have broken a row anywhere.
        """
        for text in _with_neighbours(printed):
            if found := _ROW.search(text):
                name = _name(found)
                # ours are nanoGPT's, and longer
                self.format = "nanopace" if name == "nanogpt" and self.format == "nanopace" else name
                self.has_row = True
                return
            if self.format is None and (found := _HINT.search(text)):
                self.format = _name(found)


def detect(printed: Iterable[str]) -> Format | None:
    """The format of these lines; None if it is none that we know."""
    detector = Detector()
    detector.look_at_lines(printed)
    return detector.format


def _with_neighbours(printed: Iterable[str]) -> Iterator[str]:
    """Each line, and each joined with the two before it, as far as they are worth a closer look."""
    second, first = "", ""
    for line in printed:
        joined = second + first + line
        if any(word in joined for word in _WORDS):
            yield line
            yield joined
        second, first = first, line[-400:]


def _name(found: re.Match[str]) -> Format:
    """The group that matched is named like the format."""
    return found.lastgroup  # type: ignore[return-value]


def reader_for(format: Format, builder: RunBuilder, width: int = 0) -> LineReader:
    """The reader of a format; `width` is that of the terminal which broke the log's lines, where that is known."""
    if format == "nanochat":
        from nanopace.sources.formats.nanochat import NanochatReader

        return NanochatReader(builder)
    if format == "nanopace":
        from nanopace.sources.formats.nanopace_log import NanopaceReader

        return NanopaceReader(builder, width)
    if format == "ledger":
        from nanopace.sources.formats.ledger import LedgerReader

        return LedgerReader(builder)
    from nanopace.sources.formats.nanogpt import NanogptReader

    return NanogptReader(builder, width)
