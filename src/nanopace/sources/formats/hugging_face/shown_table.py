"""Reads the table that Hugging Face's Trainer shows in a notebook, below its progress bar, as it is copied from there.

    [60/60 02:44, Epoch 1/1]
    Step    Training Loss    Validation Loss            or Epoch, if there is an evaluation after each
    10      2.926100         2.871223

The cells are separated by tabs, or by bars in Markdown, as in model cards. No row has a time; the bar's clock shows
whole seconds, starts when the first step ends, and keeps running during evaluations. A loss is the mean of the steps
since the previous log. In a row with an evaluation, it is the last one that was logged, which may be that of an earlier
row, or "No log".
"""

from __future__ import annotations

import re
from typing import NamedTuple

from nanopace.sources.build import RunBuilder
from nanopace.sources.formats.hugging_face.console_lines import entries, seconds
from nanopace.sources.formats.hugging_face.entries import MOST_S, without_steps
from nanopace.sources.head.head import Head
from nanopace.sources.scalars import to_count, to_number

_BAR = re.compile(
    r"\[\s{0,12}(\d{1,12})/(\d{1,12}) (\d{1,6}(?::\d\d){1,2})(?: < [^\]<]{1,60}?)?, "
    r"Epoch (\d{1,9}(?:\.\d{1,4})?)/(\d{1,9})\]",
    re.ASCII,
)
_BETWEEN_CELLS = re.compile(r"\s{0,20}[\t|]\s{0,20}")
_LAST_STEP = re.compile(r"\bglobal_step=(\d{1,12})\b", re.ASCII)
_COMPLETE = re.compile(r"\d\.\d{6}\s{0,20}$|[|\]]\s{0,20}$", re.ASCII)
_NOT_LOGGED = "No log"
_MOST_WAITING = 4096  # rows of a table


class _Bar(NamedTuple):
    step: int
    total: int
    elapsed_s: float
    epoch: str
    epochs: int


class _Row(NamedTuple):
    at: float  # step or epoch
    loss: float | None
    val: float | None


class _Table:
    """A table, whose rows wait until it is clear where it begins and how many steps an epoch has."""

    def __init__(self, columns: list[str], bar: _Bar | None) -> None:
        self.columns = columns
        self.bar = bar
        self.waiting: list[_Row] = []
        self._loss: float | None = None  # of the last row
        self.told = False  # a row
        self.from_start = False
        self.end: tuple[int | None, float] | None = None  # the last step, and the seconds until then

    @property
    def by_step(self) -> bool:
        return "Step" in self.columns

    def read(self, cells: list[str]) -> bool:
        """Read a row. Return False if it is none."""
        named = dict(zip(self.columns, cells, strict=False))
        at = to_number(named.get("Step" if self.by_step else "Epoch"))
        loss, val = (to_number(named.get(f"{which} Loss")) for which in ("Training", "Validation"))
        if len(cells) != len(self.columns) or at is None or (loss is None and named["Training Loss"] != _NOT_LOGGED):
            return False
        is_new = val is None or loss != self._loss  # otherwise, the last one that was logged is shown again
        self.waiting.append(_Row(at, loss if is_new else None, val))
        self._loss = loss
        return True

    def steps_of(self, row: _Row) -> int | None:
        """The step of a row."""
        if self.by_step:
            return to_count(row.at)
        per_epoch = None if self.bar is None else _steps_per_epoch(self.bar)
        return None if per_epoch is None else to_count(row.at * per_epoch)


class ShownTableReader:
    """Each table is of one call of `train()`. Its bar comes before it, and what `train()` returned after it."""

    def __init__(self, builder: RunBuilder, _width: int = 0) -> None:
        self._builder = builder
        self._head = Head(builder)
        self._bar: _Bar | None = None  # of the next table
        self._table: _Table | None = None
        self._lost = 0  # rows whose step is unknown
        self._any = False  # a row of any table

    def feed(self, line: str) -> bool:
        if (found := _BAR.search(line)) is not None:
            elapsed_s = seconds(found[3])
            if elapsed_s is not None:
                self._bar = _Bar(int(found[1]), int(found[2]), elapsed_s, found[4], int(found[5]))
            return True
        cells = _BETWEEN_CELLS.split(line.strip().strip("|").strip())
        if "Training Loss" in cells and ("Step" in cells or "Epoch" in cells):
            self._conclude()
            self._table, self._bar = _Table(cells, self._bar), None
            return True
        table = self._table
        if table is not None and ("train_runtime" in line and self._ended(line, table)):
            return True
        if table is not None and len(cells) > 1 and table.read(cells):
            if table.by_step and len(table.waiting) >= _MOST_WAITING:
                self._tell(table)
            return True
        return self._head.feed(line, settings=False)

    def feed_cut(self, line: str) -> bool:
        """The last number of a row may be incomplete, unless it has all its decimals."""
        return _COMPLETE.search(line) is not None and self.feed(line)

    def finish(self) -> None:
        self._conclude()
        if self._lost and not self._any:
            raise without_steps(self._builder.name, self._lost)

    def _ended(self, line: str, table: _Table) -> bool:
        """Whether the line is what `train()` returned: TrainOutput(global_step=60, ..., metrics={...})."""
        for _, entry in entries(line):
            runtime = to_number(entry.get("train_runtime"))
            if runtime is not None and 0 < runtime < MOST_S:
                step = _LAST_STEP.search(line)
                table.end = (int(step[1]) if step else None, runtime)
                return True
        return False

    def _tell(self, table: _Table) -> None:
        """Pass on the rows that wait."""
        for row in table.waiting:
            step = table.steps_of(row)
            if step is None:
                self._lost += 1
                continue
            if not table.told:
                self._begin(table)
            self._builder.untimed_row(step, row.loss)
            if row.val is not None:
                self._builder.evaluation(step, None, row.val)
        table.waiting.clear()

    def _begin(self, table: _Table) -> None:
        """The rows of a resumed training are closer to each other than the first one is to the start."""
        first, second = table.waiting[0].at, table.waiting[min(1, len(table.waiting) - 1)].at
        table.from_start = len(table.waiting) == 1 or first <= second - first
        table.told = self._any = True
        self._builder.begin_process(fresh=True if table.from_start else None)
        if table.bar is not None:
            self._builder.fact("max_iters", table.bar.total)

    def _conclude(self) -> None:
        """The table is over."""
        table, self._table = self._table, None
        if table is None:
            return
        self._tell(table)
        if not table.told:
            return
        bar, end = table.bar, table.end
        if end is None and bar is not None and bar.step == bar.total:
            end = (bar.step, bar.elapsed_s * bar.total / max(1, bar.total - 1))  # with a first step like the others
        if end is not None:
            if table.from_start:
                self._builder.wall_ms(1000 * end[1])
            self._builder.ending("finished", end[0])


def _steps_per_epoch(bar: _Bar) -> int | None:
    """How many steps an epoch has, if the bar shows that all epochs have all the steps. If a number of steps was asked
    for, they may end within an epoch."""
    if not bar.epochs or bar.total % bar.epochs:
        return None
    steps, epoch = bar.total // bar.epochs, float(bar.epoch)
    if bar.step == bar.total:
        return steps if epoch == bar.epochs else None
    return steps if not epoch.is_integer() and abs(bar.step - epoch * steps) <= 0.005 * steps + 1 else None
