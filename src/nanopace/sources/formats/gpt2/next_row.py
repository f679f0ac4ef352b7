"""Evaluations and checkpoints printed without an iteration: they belong to the next row."""

from __future__ import annotations

from nanopace.run import Metric
from nanopace.sources.build import RunBuilder
from nanopace.sources.printed_numbers import nan_as_inf

_ROUND = 10  # evaluations are usually at multiples of this


class NextRow:
    """Holds them back until that row comes."""

    def __init__(self, builder: RunBuilder) -> None:
        self._builder = builder
        self._scores: list[tuple[Metric, float | None, float | None]] = []
        self._saves: list[str | None] = []
        self.last: int | None = None  # iteration of the last row

    def evaluation(self, val: float, *, train: float | None = None, metric: Metric = "loss") -> None:
        self._scores.append((metric, nan_as_inf(train), nan_as_inf(val)))

    def checkpoint(self, path: str | None) -> None:
        self._saves.append(path)

    def flush(self, iteration: int, *, may_follow: bool = False) -> None:
        """Pass them to the builder, before the row of this iteration.

        `may_follow`: some forks evaluate after the row. If so, the round number is that of the previous row.
        """
        last = self.last
        if may_follow and last is not None and iteration == last + 1 and last % _ROUND == 0 and iteration % _ROUND:
            self._give(last)
        else:
            self._give(iteration)
        self.last = iteration

    def finish(self) -> None:
        """No row follows: they belong to the step after the last one."""
        if self.last is not None:
            self._give(self.last + 1)

    def _give(self, iteration: int) -> None:
        for metric, train, val in self._scores:
            self._builder.evaluation(iteration, train, val, metric=metric)
        for path in self._saves:
            self._builder.checkpoint(iteration, path)
        self._scores.clear()
        self._saves.clear()
