"""Separates several processes that print to one log without a prefix.

    iter 120: loss 3.01, time 101.20ms
    iter 119: loss 3.02, time 100.70ms
    iter 121: ...
    iter 120: ...

A restarted process goes back, too, but then the previous one is gone. Here it continues: its next row follows its last.
From the first row that goes back, a few hundred rows are examined before each is assigned to a process. The rows of the
first process are kept; those of the others are counted.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

from nanopace.sources.build import RunBuilder
from nanopace.sources.processes.rank_prefixes import BEGINNING

WINDOW = 512  # rows
_RETURNS = 3  # of a process after rows of another: fewer may be missing lines
_MOST_LANES = 1024  # to remember

# As nanoGPT and nanochat print them; those of other trainers are passed through.
_EVALUATION = re.compile(r"\b[sS]tep\s{0,8}(\d{1,12})\s{0,4}(?::|\|\s?([A-Za-z]{1,20}))", re.ASCII)

Printed = tuple[str, bool]  # a line, and whether it has its line end


class _Line(NamedTuple):
    printed: Printed
    row: int | None  # its iteration
    lane: int = 0


def of_one_process(printed: Iterable[Printed], builder: RunBuilder) -> Iterator[Printed]:
    """The lines of a log without the rows of other processes that print in between."""
    row_start = re.compile(builder.format.row_start, re.ASCII)
    window: _Window | None = None
    last, text = -1, ""
    for each in printed:
        line = each[0]
        found = row_start.search(line, 0, BEGINNING) if line else None
        iteration = None if found is None else int(found[1])
        if found is not None and iteration is not None:
            text, before = line[found.start() :], text
            if text == before:  # the same line twice: two handlers print it
                iteration = None
            elif window is None and iteration <= last:
                window = _Window(last, builder)
            last = last if iteration is None else iteration
        elif window is None and _goes_back(line, last):
            window = _Window(last, builder)
        if window is None:
            yield each
            continue
        yield from window.add(each, iteration)
        if window.one_process_left:
            yield from window.finish()
            window = None
    if window is not None:
        yield from window.finish()


def _goes_back(line: str, last: int) -> bool:
    """An evaluation of an earlier iteration: the row after it will be earlier, too."""
    found = _EVALUATION.search(line, 0, BEGINNING) if "tep" in line else None
    return found is not None and int(found[1]) < last


class _Window:
    """The undecided lines since a row went back. A lane is what one process prints."""

    def __init__(self, last: int, builder: RunBuilder) -> None:
        self._builder = builder
        self._lines: deque[_Line] = deque()
        self._rows = 0  # of these lines
        self._stride = 0  # from one row of a process to its next; 0 until enough rows have been seen
        self._last = {0: last}  # by lane: its last iteration
        self._waiting: dict[int, list[int]] = {}  # by iteration: lanes whose next row it would be
        self._lane = self._lanes = 0  # of the last row, and the highest
        self._alone = 0  # rows since another lane had one
        self._returns: Counter[int] = Counter()  # by lane: how often it continues after another one, in these lines
        self._before = 0  # the lane of the last decided row
        self._kept = 0  # the lane whose rows are kept
        self._others: set[int] = set()
        self._reached = last
        self._between: list[Printed] = []  # lines since the last decided row
        self._evaluated: dict[str, int] = {}

    @property
    def one_process_left(self) -> bool:
        return self._alone >= WINDOW

    def add(self, printed: Printed, row: int | None) -> Iterator[Printed]:
        """Add a line. Yields those that it decides."""
        if not self._stride:
            self._lines.append(_Line(printed, row))
            self._rows += row is not None
            if self._rows == WINDOW:
                self._begin()
            return
        self._lines.append(self._placed(_Line(printed, row)))
        self._rows += row is not None
        while self._rows > WINDOW:
            yield from self._decide(ended=False)

    def finish(self) -> Iterator[Printed]:
        """Decide on the rest: there are no more lines, or no more doubt."""
        if not self._stride:
            self._begin()
        while self._lines:
            yield from self._decide(ended=not self.one_process_left)

    def _begin(self) -> None:
        """The stride of a process is the most frequent gap between all iterations."""
        known = sorted({line.row for line in self._lines if line.row is not None} | {*self._last.values()})
        gaps = Counter(after - before for before, after in pairwise(known))
        self._stride = min(gaps, key=lambda gap: (-gaps[gap], gap), default=1)
        self._wait(0, self._last[0])
        self._lines = deque(map(self._placed, self._lines))

    def _placed(self, line: _Line) -> _Line:
        """Assign a row to the lane of the last row, to one that waits for it, or to a new one."""
        if line.row is None:
            return line
        last, row = self._last[self._lane], line.row
        waiting = self._waiting.get(row)
        if row != last + self._stride and waiting:
            lane = waiting[0]
        elif row > last:
            lane = self._lane
        else:
            self._lanes += 1
            lane = self._lanes
        if lane == self._lane:
            self._alone += 1
        else:
            self._alone = 0
            self._returns[lane] += 1
        self._wait(lane, row)
        self._lane = lane
        return _Line(line.printed, row, lane)

    def _wait(self, lane: int, row: int) -> None:
        before = self._last.pop(lane, None)
        if before is not None:
            self._stop_waiting(lane, before)
        elif len(self._last) >= _MOST_LANES:
            oldest = next(iter(self._last))
            self._stop_waiting(oldest, self._last.pop(oldest))
        self._last[lane] = row
        self._waiting.setdefault(row + self._stride, []).append(lane)

    def _stop_waiting(self, lane: int, row: int) -> None:
        waiting = self._waiting.get(row + self._stride, [])
        if lane in waiting:
            waiting.remove(lane)
        if not waiting:
            self._waiting.pop(row + self._stride, None)

    def _decide(self, *, ended: bool) -> Iterator[Printed]:
        """Decide on the first line. A line that is not a row waits for the next row."""
        line = self._lines.popleft()
        if line.row is None:
            self._between.append(line.printed)
            if not self._rows:
                yield from self._flush_between(kept=not self._others)
            return
        self._rows -= 1
        if line.lane != self._before:
            self._before = line.lane
            self._returns[line.lane] -= 1
        kept = line.lane == self._kept or not self._is_of_another(line.lane, ended)
        yield from self._flush_between(kept=kept)
        if kept:
            self._kept, self._reached = line.lane, line.row
            yield line.printed
        else:
            self._others.add(line.lane)
            self._builder.row_of_another()

    def _is_of_another(self, lane: int, ended: bool) -> bool:
        """Whether the kept process continues after this row: several times, or once after another known one."""
        returns = self._returns[self._kept]
        return returns >= _RETURNS or (lane in self._others and (returns > 0 or ended))

    def _flush_between(self, *, kept: bool) -> Iterator[Printed]:
        """The lines before a row. Each process prints the evaluations: the first counts, unless it is old."""
        for printed in self._between:
            found = _EVALUATION.search(printed[0], 0, BEGINNING)
            if found is not None and (self._others or not kept):
                iteration, metric = int(found[1]), found[2] or ""
                if iteration <= max(self._reached, self._evaluated.get(metric, -1)):
                    continue
                self._evaluated[metric] = iteration
            yield printed
        self._between.clear()
