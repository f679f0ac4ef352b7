"""From lines to a run as they arrive: detect the format, then use its reader."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import Protocol

from nanopace.errors import InputError
from nanopace.live.observed import ObservedBuilder, Observer
from nanopace.live.one_process import OneProcess
from nanopace.run import Run
from nanopace.sources.detect import SNIFF_BYTES, Detector
from nanopace.sources.formats.registry import add_formats_of_packages
from nanopace.sources.log_format import LogFormat
from nanopace.sources.processes.interleaved import Printed
from nanopace.sources.processes.rank_prefixes import BEGINNING, Ranks, find_ranks, of_one_rank
from nanopace.sources.readers import LineReader
from nanopace.sources.text import lines, width_of

MOST_ROWS = 8192  # single rows; beyond this, similar ones are folded
_MOST_HEAD = 8 << 20  # bytes kept for the reader before the first row: speedruns print their source there
_LOOK_AGAIN = 1 << 20  # bytes without a known row, after which formats from other packages are tried
_RANK_ROWS = 32  # rows needed to recognise a prefix as a rank


class Reader(Protocol):
    """Turns input into a run and reports each row to an observer."""

    @property
    def format(self) -> LogFormat | None:
        """The format of the log, once known."""

    def feed(self, data: bytes) -> None:
        """Take whole lines."""

    def look(self, now: float) -> bool:
        """Called several times a second: returns whether there is something new that did not come through `feed`."""

    def snapshot(self) -> Run | None:
        """The run so far."""

    def finish(self) -> None:
        """No more input; raises an InputError if something is wrong with it."""


class LiveReader:
    """Takes blocks of whole lines and keeps them until a row shows the format."""

    def __init__(self, name: str, observer: Observer, patterns: Sequence[str] = ()) -> None:
        self._builder = ObservedBuilder(name, observer)
        self._detector = Detector()
        self._head: list[bytes] = []
        self._head_bytes = 0
        self._reader: LineReader | None = None
        self._ranks: Ranks | None = None
        self._one: OneProcess | None = None
        self._undecided: list[Printed] | None = None  # lines that wait for more rows, to separate ranks
        self._looked_again = self._finished = False
        if patterns:
            self._reader = _by_patterns(self._builder, patterns)

    @property
    def format(self) -> LogFormat | None:
        """The format of the log, once a row has shown it."""
        return self._builder.format if self._reader is not None else None

    def feed(self, data: bytes) -> None:
        if self._reader is not None:
            self._feed_lines(lines([data]))
            return
        if self.is_document:
            return
        self._detector.look_at(data)
        self._keep(data)
        if not self._detector.has_row and self._head_bytes > _LOOK_AGAIN and not self._looked_again:
            self._look_again()
        if self._detector.has_row and not self.is_document:
            self._open()

    @property
    def is_document(self) -> bool:
        """Whether the input is not lines but a document, which cannot be read before it is complete."""
        return self._detector.format is not None and bool(self._detector.format.opening)

    @property
    def trainer(self) -> str:
        """The trainer that it seems to come from."""
        return "" if self._detector.format is None else self._detector.format.trainer

    def finish(self) -> None:
        if self._reader is None:
            if not self._detector.has_row:
                self._look_again()
            if not self._detector.has_row or self.is_document:
                return
            self._open()
        self._finished = True
        self._decide_ranks()
        if self._one is not None:
            for line in self._one.finish():
                self._feed(line, ended=True)
        if self._reader is not None:
            self._reader.finish()

    def snapshot(self) -> Run | None:
        """The run so far, as `explain` would read these lines.

        Readers hold rows back until a line says more about them. So a copy is told that this was all.
        """
        if self._reader is None:
            return None
        if self._finished:
            return self._builder.snapshot()
        builder = self._builder.twin()
        try:
            twin = deepcopy(self, {id(self._builder): builder, id(self._detector): self._detector})
        except TypeError:  # a third-party reader that cannot be copied
            return self._builder.snapshot()
        try:
            twin.finish()
        except InputError:
            return None
        runs = builder.finish()
        return runs[-1] if runs else None

    def look(self, _now: float) -> bool:
        """Fold rows, so that a run of any length fits in memory."""
        self._builder.fold_beyond(MOST_ROWS)
        return False

    def _keep(self, data: bytes) -> None:
        """Keep the head of the log, dropping the middle if it is very long."""
        self._head.append(data)
        self._head_bytes += len(data)
        while self._head_bytes > _MOST_HEAD and len(self._head) > 2:
            self._head_bytes -= len(self._head.pop(1))

    def _look_again(self) -> None:
        """Look at all of it together, because a document may need several lines to be recognised, and with formats from
        other packages."""
        self._looked_again = True
        add_formats_of_packages()
        self._detector = Detector()
        self._detector.look_at(b"".join(self._head))

    def _open(self) -> None:
        format = self._detector.format
        assert format is not None
        head, self._head = self._head, []
        width = width_of(line for line, _ in lines([b"".join(head)[:SNIFF_BYTES]]))
        self._reader = format.open_reader(self._builder, width)
        if format.row_start:
            self._one = OneProcess(format.row_start)
            self._undecided = []
        for each in head:
            self._feed_lines(lines([each]))

    def _feed_lines(self, printed: Iterator[Printed]) -> None:
        for line, ended in printed:
            if self._undecided is None:
                self._feed_decided(line, ended)
                continue
            self._undecided.append((line, ended))
            row = re.search(self._builder.format.row_start, line[:BEGINNING])
            if row is not None and (row.start() == 0 or self._rows_undecided() >= _RANK_ROWS):
                self._decide_ranks()

    def _rows_undecided(self) -> int:
        row_start = re.compile(self._builder.format.row_start)
        return sum(row_start.search(line[:BEGINNING]) is not None for line, _ in self._undecided or ())

    def _decide_ranks(self) -> None:
        """A row at the start of a line has no rank; otherwise, the rows show it."""
        waiting, self._undecided = self._undecided, None
        if waiting is None:
            return
        self._ranks = find_ranks((line for line, _ in waiting), self._builder.format)
        for line, ended in waiting:
            self._feed_decided(line, ended)

    def _feed_decided(self, line: str, ended: bool) -> None:
        if self._ranks is not None:
            found = next(of_one_rank([(line, ended)], self._ranks, self._builder), None)
            if found is None:
                return
            line = found[0]
        if self._one is None or not ended:
            self._feed(line, ended)
            return
        others = self._one.rows_of_others
        for each in self._one.feed(line):
            self._feed(each, ended=True)
        for _ in range(self._one.rows_of_others - others):
            self._builder.row_of_another()

    def _feed(self, line: str, ended: bool) -> None:
        assert self._reader is not None
        (self._reader.feed if ended else self._reader.feed_cut)(line)


def _by_patterns(builder: ObservedBuilder, patterns: Sequence[str]) -> LineReader:
    """The reader for --pattern, whatever the log looks like."""
    from nanopace.sources.formats.pattern import compile_patterns
    from nanopace.sources.formats.pattern_reader import PatternReader

    return PatternReader(builder, compile_patterns(patterns))
