"""Which of the plain rows make the baseline, where the others would bend a median."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

from nanopace.run import Rows

MOST_GAPS = 5  # a few rows far above all others have wider ones
LEAST_MS = 1e-9  # some logs print a time of 0, which has no logarithm
SLOW_RATIO = 1.25  # outside the noise and at least this much over the baseline: worth explaining row by row


def find_typical_rows(rows: Rows, special: frozenset[int]) -> dict[int, int]:
    """For rows that were folded like with like: the one of their part of the log that stands for the plain rows."""
    typical_rows = {}
    for part in rows.mixtures():
        plain = [index for index in part if index not in special]
        largest = max(plain, key=lambda index: rows.count[index], default=part.start)
        if plain and rows.count[largest] > 1:
            typical_rows.update(dict.fromkeys(part, largest))
    return typical_rows


def baseline_rows(logs: Sequence[float], plain: Sequence[int], typical_rows: Mapping[int, int]) -> Sequence[int]:
    """Positions of the rows that make the baseline. Where rows were folded, only the slow ones are single."""
    if not typical_rows:
        return _without_interleaved(logs)
    return [position for position, index in enumerate(plain) if typical_rows.get(index, index) == index]


def _without_interleaved(logs: Sequence[float]) -> Sequence[int]:
    """Positions without the slow rows where these alternate with normal ones, as when every second row evaluates and
    the lines that say so were cut out. A median cannot tell such rows from the normal ones: they are too many."""
    everything = range(len(logs))
    ordered = sorted(logs)
    for gap, bound in sorted(((high - low, low) for low, high in pairwise(ordered)), reverse=True)[:MOST_GAPS]:
        if gap < math.log(SLOW_RATIO):
            break
        low = [position for position in everything if logs[position] <= bound]
        high = len(logs) - len(low)
        crossings = sum((a <= bound) != (b <= bound) for a, b in pairwise(logs))
        if crossings >= high and 0.3 * len(logs) <= high and len(low) >= max(3, 0.25 * len(logs)):
            return low
    return everything
