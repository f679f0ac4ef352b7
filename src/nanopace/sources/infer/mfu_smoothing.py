"""Derives the work of an iteration from a printed mfu that is a running average.

nanoGPT prints m = 0.9 m' + 0.1 w / t: m' is the figure of the previous row, t the row's time, and w the work of an
iteration over the assumed peak, which is the same in every row. The times are known, so each row, including evaluation
rows, gives bounds for w, as exact as the rounding of its mfu. The answer is what all rows agree on.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from nanopace.run import Rows, Run

MOST_ROWS = 20_000  # to examine
HALF_TICK_MS = 0.005  # times are rounded to 0.01 ms
FEWEST_ROWS = 5  # without a contradiction, so that it is not by chance
DUST = 1e-9


class Work(NamedTuple):
    """The bounds of what an iteration does, in milliseconds at the assumed peak."""

    low: float
    high: float

    @property
    def ms(self) -> float:
        return (self.low + self.high) / 2

    @property
    def uncertainty(self) -> float:
        """The possible error of the midpoint, as a share of it."""
        return (self.high - self.low) / (self.high + self.low)


def printed_work(run: Run) -> Work | None:
    """The work of an iteration; None if the printed mfu does not reveal it, or is not such an average.

    Some forks print each row's own figure: of the two interpretations, the one that fewer rows contradict is used.
    """
    rows, starts = _single_rows(run.rows), frozenset(restart.row for restart in run.restarts)
    stretches = list(_stretches(rows, run.mfu_smoothing or 0.0, starts))
    if any(each.contradicted for each in stretches):
        stretches = min(stretches, list(_stretches(rows, 0.0, starts)), key=len)
    telling = [each for each in stretches if each.rows >= FEWEST_ROWS or not each.contradicted]
    if 2 * sum(each.rows for each in telling) <= sum(each.rows for each in stretches):
        return None
    telling.sort(key=lambda each: each.rows, reverse=True)
    low, high = telling[0].low, telling[0].high
    for each in telling[1:]:
        if each.low <= high and each.high >= low:
            low, high = max(low, each.low), min(high, each.high)
    return Work(low, high) if low > 0 and high < math.inf else None


def seconds_of_work(run: Run, exact: float) -> float | None:
    """The same in seconds; None if its uncertainty exceeds `exact`."""
    work = printed_work(run)
    return None if work is None or work.uncertainty > exact else work.ms / 1000


def _single_rows(rows: Rows) -> Rows:
    """The rows before the first folded one: after that, a row's predecessor is not known."""
    folded = min((first for first, count in zip(rows.iteration, rows.count, strict=True) if count > 1), default=None)
    some = rows[:MOST_ROWS]
    return some if folded is None else some[: sum(last < folded for last in some.last_iteration)]


def _stretches(rows: Rows, weight: float, starts: Collection[int]) -> Iterator[_Stretch]:
    """Consecutive rows that agree. A row that contradicts them starts a new stretch: lines may be missing before it."""
    half = _half_step(rows.mfu)
    current: _Stretch | None = None
    known = False  # whether the average starts with the next figure, because the rows before have none
    for index, (ms, mfu) in enumerate(zip(rows.ms, rows.mfu, strict=True)):
        if math.isnan(mfu) or index in starts:
            if current is not None:
                yield current
            current, known = None, math.isnan(mfu)
        if math.isnan(mfu):
            continue
        if current is not None and not current.takes(ms, mfu):
            current.contradicted = True
            yield current
            current = None
        if current is None:
            current = _Stretch(weight, half, ms, mfu, begins=known or not weight)
        known = False
    if current is not None:
        yield current


class _Stretch:
    """Rows that agree: each figure is `kept` x the figure before them + work x `inverse`."""

    def __init__(self, weight: float, half: float, ms: float, mfu: float, *, begins: bool) -> None:
        self._weight, self._half = weight, half
        self._before = mfu
        self._kept, self._inverse = (0.0, 1 / ms) if begins else (1.0, 0.0)
        self._blur = HALF_TICK_MS / ms + DUST  # of `inverse`, because times are rounded
        self.low, self.high = self._bounds(mfu) if begins else (-math.inf, math.inf)
        self.rows = 1
        self.contradicted = False  # by the next row

    def takes(self, ms: float, mfu: float) -> bool:
        """Add a row; False if no work fits it and those before."""
        self._kept *= self._weight
        self._inverse = self._weight * self._inverse + (1 - self._weight) / ms
        self._blur = max(self._blur, HALF_TICK_MS / ms + DUST)
        low, high = self._bounds(mfu)
        if max(low, self.low) > min(high, self.high):
            return False
        self.low, self.high = max(low, self.low), min(high, self.high)
        self.rows += 1
        return True

    def _bounds(self, mfu: float) -> tuple[float, float]:
        known = mfu - self._kept * self._before
        rounding = self._half * (1 + self._kept) + DUST * mfu
        low, high = (known - rounding) / self._inverse, (known + rounding) / self._inverse
        return low - abs(low) * self._blur, high + abs(high) * self._blur


def _half_step(figures: Sequence[float]) -> float:
    """Half a unit of the last printed digit: two decimals of a percentage, unless the figures show more or fewer."""
    known = {round(mfu * 100, 8) for mfu in figures if not math.isnan(mfu)}
    fewest = 2 if len(known) < 10 else 0  # a few figures may end in 0 by chance
    decimals = next((n for n in range(fewest, 7) if all(abs(each - round(each, n)) < 1e-7 for each in known)), 7)
    return 0.005 * 0.1**decimals
