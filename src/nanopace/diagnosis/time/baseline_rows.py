"""Which plain rows form the baseline, where the others would distort a median."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby, pairwise

from nanopace.diagnosis.time.levels import LEAST_ROWS
from nanopace.run import Rows

MOST_GAPS = 5  # a few rows far above all others have wider gaps
LEAST_MS = 1e-9  # some logs print a time of 0, which has no logarithm
SLOW_RATIO = 1.25  # outside the noise and at least this much over the baseline: worth explaining row by row


def find_typical_rows(rows: Rows, special: frozenset[int]) -> dict[int, int]:
    """For folded logs: maps each row to the one that stands for the plain rows in its part of the log."""
    typical_rows = {}
    for part in rows.mixtures():
        plain = [index for index in part if index not in special]
        largest = max(plain, key=lambda index: rows.count[index], default=part.start)
        if plain and rows.count[largest] > 1:
            typical_rows.update(dict.fromkeys(part, largest))
    return typical_rows


def baseline_rows(logs: Sequence[float], plain: Sequence[int], typical_rows: Mapping[int, int]) -> Sequence[int]:
    """Positions of the rows that form the baseline. In a folded log, only slow rows are single."""
    if not typical_rows:
        return _without_interleaved(logs)
    return [position for position, index in enumerate(plain) if typical_rows.get(index, index) == index]


def _without_interleaved(logs: Sequence[float]) -> Sequence[int]:
    """Positions without slow rows that alternate with normal ones, as when every second row contains an evaluation and
    the lines that report it were cut out. There are too many of them for a median to ignore."""
    everything = range(len(logs))
    ordered = sorted(logs)
    for gap, bound in sorted(((high - low, low) for low, high in pairwise(ordered)), reverse=True)[:MOST_GAPS]:
        if gap < math.log(SLOW_RATIO):
            break
        low = [position for position in everything if logs[position] <= bound]
        high = len(logs) - len(low)
        crossings = sum((a <= bound) != (b <= bound) for a, b in pairwise(logs))
        alternate = crossings >= high and _longest(value > bound for value in logs) < LEAST_ROWS
        if alternate and 0.3 * len(logs) <= high and len(low) >= max(3, 0.25 * len(logs)):
            return low
    return everything


def _longest(slow: Iterable[bool]) -> int:
    """The longest stretch of slow rows: a long one is a level of its own."""
    return max((sum(1 for _ in stretch) for is_slow, stretch in groupby(slow) if is_slow), default=0)
