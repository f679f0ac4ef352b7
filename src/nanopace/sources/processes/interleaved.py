"""Separates several processes that print to one log without a prefix.

    iter 120: loss 3.01, time 101.20ms
    iter 119: loss 3.02, time 100.70ms
    iter 121: ...
    iter 120: ...

A restarted process goes back, too, but then the previous one is gone. Here it continues: its next row follows its last.
From the first row that goes back, a few hundred rows are examined before each is assigned to a process. The rows of the
first process are kept; those of the others are counted.

Two different trainings may print to one log, too. The last iteration that their rows print tells them apart:

    step 00022/00502 ...
    step 00002/00620 ...
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

_TOTAL = re.compile(r'(?:\s{0,4}/\s{0,4}|, "total_steps": )(\d{1,12})', re.ASCII)  # follows the iteration
# As nanoGPT and nanochat print them; those of other trainers are passed through.
_EVALUATION = re.compile(r"\b[sS]tep\s{0,8}(\d{1,12})\s{0,4}(?::|\|\s?([A-Za-z]{1,20}))", re.ASCII)

Printed = tuple[str, bool]  # a line, and whether it has its line end


class _Step(NamedTuple):
    total: int  # how many iterations its process will do; 0 if the row does not print that
    iteration: int

    def plus(self, stride: int) -> _Step:
        return _Step(self.total, self.iteration + stride)


class _Line(NamedTuple):
    printed: Printed
    row: _Step | None
    lane: int = 0


def of_one_process(printed: Iterable[Printed], builder: RunBuilder) -> Iterator[Printed]:
    """The lines of a log without the rows of other processes that print in between."""
    row_start = re.compile(builder.format.row_start, re.ASCII)
    window: _Window | None = None
    last = _Step(0, -1)
    texts: dict[int, str] = {}  # by total: the last row
    for each in printed:
        line = each[0]
        found = row_start.search(line, 0, BEGINNING) if line else None
        row = None if found is None or found[1] is None else _step(found)
        if found is not None and row is not None:
            text, before = line[found.start() :], texts.get(row.total)
            if len(texts) >= _MOST_LANES:
                texts.clear()
            texts[row.total] = text
            if text == before:  # the same line twice: two handlers print it
                if window is not None and row.total != window.kept_total:
                    continue
                row = None
            elif window is None and (row.iteration <= last.iteration or row.total != last.total != 0):
                window = _Window(last, builder)
            last = last if row is None else row
        elif window is None and _goes_back(line, last.iteration):
            window = _Window(last, builder)
        if window is None:
            yield each
            continue
        yield from window.add(each, row)
        if window.one_process_left:
            yield from window.finish()
            window = None
    if window is not None:
        yield from window.finish()


def _step(found: re.Match[str]) -> _Step:
    total = _TOTAL.match(found.string, found.end(1))
    return _Step(0 if total is None else int(total[1]), int(found[1]))


def _goes_back(line: str, last: int) -> bool:
    """An evaluation of an earlier iteration: the row after it will be earlier, too."""
    found = _EVALUATION.search(line, 0, BEGINNING) if "tep" in line else None
    return found is not None and int(found[1]) < last


class _Window:
    """The undecided lines since a row went back. A lane is what one process prints."""

    def __init__(self, last: _Step, builder: RunBuilder) -> None:
        self._builder = builder
        self._lines: deque[_Line] = deque()
        self._rows = 0  # of these lines
        self._stride = 0  # from one row of a process to its next; 0 until enough rows have been seen
        self._last = {0: last}  # by lane
        self._latest = {last.total: 0}  # by total: the lane of the last row
        self._waiting: dict[_Step, list[int]] = {}  # lanes whose next row this would be, the latest last
        self._placed_at: dict[int, int] = {}  # by lane: the number of its last row
        self._rows_placed = 0
        self._lane = self._lanes = 0  # of the last row, and the highest
        self._alone = 0  # rows since another lane had one
        self._returns: Counter[int] = Counter()  # by lane: how often it continues after another one, in these lines
        self._before = 0  # the lane of the last decided row
        self._kept = 0  # the lane whose rows are kept
        self._others: set[int] = set()
        self.kept_total = last.total
        self._strangers = False  # there are rows of another training between those of the kept lane
        self._reached = last.iteration
        self._between: list[Printed] = []  # lines since the last decided row
        self._evaluated: dict[str, int] = {}

    @property
    def one_process_left(self) -> bool:
        """Or only processes of the same training: of another one, not even the end belongs to this run."""
        return self._alone >= WINDOW and self._last[self._lane].total == self.kept_total

    def add(self, printed: Printed, row: _Step | None) -> Iterator[Printed]:
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
        gaps = Counter(
            after.iteration - before.iteration for before, after in pairwise(known) if before.total == after.total
        )
        self._stride = min(gaps, key=lambda gap: (-gaps[gap], gap), default=1)
        self._wait(0, self._last[0])
        self._lines = deque(map(self._placed, self._lines))

    def _placed(self, line: _Line) -> _Line:
        """Assign a row to the lane of the last row, to one that waits for it, or to a new one."""
        if line.row is None:
            return line
        row, latest = line.row, self._latest.get(line.row.total)
        last = None if latest is None else self._last[latest]
        waiting = self._waiting.get(row)
        if waiting:
            lane = self._continued(waiting)
        elif latest is not None and last is not None and row > last:
            lane = latest
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

    def _continued(self, waiting: list[int]) -> int:
        """Which of the lanes that wait for the same row. Those that printed the previous one in direct succession keep
        their order; one that did so long before them has probably died."""
        lane = waiting[-1]
        for earlier in reversed(waiting[:-1]):
            if self._placed_at[earlier] != self._placed_at[lane] - 1:
                break
            lane = earlier
        return lane

    def _wait(self, lane: int, row: _Step) -> None:
        self._rows_placed += 1
        self._placed_at[lane] = self._rows_placed
        before = self._last.pop(lane, None)
        if before is not None:
            self._stop_waiting(lane, before)
        elif len(self._last) >= _MOST_LANES:
            oldest = next(iter(self._last))
            gone = self._last.pop(oldest)
            self._stop_waiting(oldest, gone)
            if self._latest[gone.total] == oldest:
                del self._latest[gone.total]
            del self._placed_at[oldest]
        self._last[lane] = row
        self._latest[row.total] = lane
        self._waiting.setdefault(row.plus(self._stride), []).append(lane)

    def _stop_waiting(self, lane: int, row: _Step) -> None:
        waiting = self._waiting.get(row.plus(self._stride), [])
        if lane in waiting:
            waiting.remove(lane)
        if not waiting:
            self._waiting.pop(row.plus(self._stride), None)

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
        kept = line.lane == self._kept or not self._is_of_another(line.lane, line.row, ended)
        follows = kept and line.lane != self._kept  # another run or process, once the kept one has ended
        if follows:
            self._kept, self.kept_total, self._strangers = line.lane, line.row.total, False
        yield from self._flush_between(kept=kept, first=line.row.iteration if follows else None)
        if follows:
            self._evaluated.clear()
        if kept:
            self._reached = line.row.iteration
            yield line.printed
        else:
            self._others.add(line.lane)
            self._strangers |= line.row.total != self.kept_total
            self._builder.row_of_another()

    def _is_of_another(self, lane: int, row: _Step, ended: bool) -> bool:
        """Whether the kept process continues after this row: several times, or once after another known one. Another
        training never continues it."""
        returns = self._returns[self._kept]
        is_final = ended or row.total != self.kept_total
        return returns >= _RETURNS or (lane in self._others and (returns > 0 or is_final))

    def _flush_between(self, *, kept: bool, first: int | None = None) -> Iterator[Printed]:
        """The lines before a row. Each process prints the evaluations: the first counts, unless it is old. `first`: the
        row is the first of another run or process, which may have evaluated before it.

        Between the rows of two trainings, only an evaluation shows whose it is: the kept one has not come further than
        to its next row.
        """
        for printed in self._between:
            found = _EVALUATION.search(printed[0], 0, BEGINNING)
            if self._strangers and (found is None or int(found[1]) > self._reached + self._stride):
                continue
            if found is not None and (self._others or not kept):
                iteration, metric = int(found[1]), found[2] or ""
                if iteration <= max(self._reached, self._evaluated.get(metric, -1)) and iteration != first:
                    continue
                self._evaluated[metric] = iteration
            yield printed
        self._between.clear()
