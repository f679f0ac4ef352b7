"""Medians: plain, weighted and rolling. The standard library's `statistics` is slow to import."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from itertools import accumulate


def median(values: Iterable[float]) -> float:
    """The middle value, or the mean of the middle two."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def weighted_median(values: Sequence[float], weights: Sequence[int]) -> float:
    """The median of values that each stand for `weight` like it."""
    if max(weights) == 1:
        return median(values)
    pairs = sorted(zip(values, weights, strict=True))
    seen = list(accumulate(weight for _, weight in pairs))
    return pairs[bisect_left(seen, seen[-1] / 2)][0]


def typical(values: Iterable[tuple[float, int]]) -> float:
    """The same of pairs of a value and its weight."""
    pairs = list(values)
    return weighted_median([value for value, _ in pairs], [weight for _, weight in pairs])


def rolling_median(values: Sequence[float], half: int) -> list[float]:
    """The median of each value and its neighbours, `half` on either side as far as there are any: O(n log half)."""
    window = sorted(values[:half])
    medians = []
    for index in range(len(values)):
        if index + half < len(values):
            insort(window, values[index + half])
        if index > half:
            del window[bisect_left(window, values[index - half - 1])]
        middle = len(window) // 2
        medians.append(window[middle] if len(window) % 2 else (window[middle - 1] + window[middle]) / 2)
    return medians
