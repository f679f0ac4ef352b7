"""Reads the console output of minGPT's projects, and of loops that use its Trainer with their callback.

    iter_dt 78.12ms; iter 10: train loss 2.11295

What the log does not say about its figures:

- `iter_dt` is the iteration before the named one, from one row's callback to the next: that of iteration 0 is 0.
- Evaluations and samples come in the callback, after the row. Their time is in `iter_dt` of the next row, if every
  iteration has one; usually every tenth does, and no row contains them.
- `loss` is that of the whole step: there is no accumulation.
- The number of parameters leaves out the head.
"""

from __future__ import annotations

import re

from nanopace.run import Row
from nanopace.sources.build import RunBuilder
from nanopace.sources.formats.gpt2.endings import ending_of
from nanopace.sources.printed_numbers import nan_as_inf

_ROW = re.compile(
    r"\biter_dt (\d{1,12}\.\d{1,6})ms; iter (\d{1,12}): train loss (\d{1,9}\.\d{1,9}|nan|inf)(?![\w.])", re.ASCII
)
_START = re.compile(r"^number of parameters: \d|^running on device (cuda|mps|cpu)\b", re.ASCII)
_SAVING = re.compile(r"^saving model\b")
_KNOB = re.compile(
    r"^\s{2,12}(n_layer|n_head|n_embd|vocab_size|block_size|batch_size|max_iters): (\d{1,12})$", re.ASCII
)


class MingptReader:
    """Feeds a RunBuilder."""

    def __init__(self, builder: RunBuilder, _width: int = 0) -> None:
        self._builder = builder
        self._last = 0  # iteration of the last row

    def feed(self, line: str) -> bool:
        if row := _ROW.search(line):
            self._row(float(row[1]), int(row[2]), float(row[3]))
        elif start := _START.search(line):
            self._builder.begin_process(fresh=True)  # it cannot resume
            if start[1]:
                self._builder.fact("device", start[1])
        elif knob := _KNOB.search(line):
            self._builder.begin_process(fresh=True)
            self._builder.fact(knob[1], int(knob[2]))
        elif _SAVING.match(line):
            self._builder.checkpoint(self._last)
        elif (ending := ending_of(line)) is not None:
            self._builder.ending(ending)
        else:
            return False
        return True

    def feed_cut(self, line: str) -> bool:
        """Read the last line, unless its loss may lack digits."""
        row = _ROW.search(line)
        return row is not None and len(row[3].partition(".")[2]) >= 5 and self.feed(line)

    def finish(self) -> None:
        """Nothing is held back."""

    def _row(self, ms: float, iteration: int, loss: float) -> None:
        self._last = iteration
        if ms > 0:
            self._builder.row(Row(iteration, ms, nan_as_inf(loss)))
