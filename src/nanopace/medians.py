"""Medians, quantiles and ranks. The standard library's `statistics` is slow to import."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Sequence
from itertools import accumulate

_NEARLY_ONE = 1 - 1e-9


def median(values: Iterable[float]) -> float:
    """The middle value, or the mean of the middle two."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def upper_median(values: Collection[float]) -> float:
    """The upper of the two middle values: always a measured value, never a mean."""
    return sorted(values)[len(values) // 2]


def weighted_median(values: Sequence[float], weights: Sequence[int]) -> float:
    """The median, where each value counts `weight` times."""
    return median(values) if max(weights) == 1 else weighted_quantiles(values, weights, (0.5,))[0]


def weighted_quantiles(values: Sequence[float], weights: Sequence[int], shares: Sequence[float]) -> list[float]:
    """For each share, the smallest value that covers that share of the weight."""
    if max(weights) == 1:
        ordered = sorted(values)
        return [ordered[max(0, math.ceil(share * len(ordered)) - 1)] for share in shares]
    pairs = sorted(zip(values, weights, strict=True))
    seen = list(accumulate(weight for _, weight in pairs))
    return [pairs[bisect_left(seen, share * seen[-1])][0] for share in shares]


def typical(values: Iterable[tuple[float, int]]) -> float:
    """The median of (value, weight) pairs."""
    pairs = list(values)
    return weighted_median([value for value, _ in pairs], [weight for _, weight in pairs])


def rolling_median(values: Sequence[float], half: int) -> list[float]:
    """The median of each value and up to `half` neighbours on either side: O(n log half)."""
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


def ranks(values: Sequence[float]) -> list[float]:
    """The rank of each value, counting from 1. Equal values share the mean of their ranks."""
    order = sorted(range(len(values)), key=values.__getitem__)
    found = [0.0] * len(values)
    begin = 0
    while begin < len(order):
        end = begin + 1
        while end < len(order) and values[order[end]] == values[order[begin]]:
            end += 1
        for position in order[begin:end]:
            found[position] = (begin + 1 + end) / 2
        begin = end
    return found


def rank_difference(before: Sequence[float], after: Sequence[float]) -> float:
    """How far `after` lies above `before`, in standard errors of the Mann-Whitney test, which resists outliers."""
    first, second = len(before), len(after)
    above = sum(ranks([*before, *after])[first:]) - second * (second + 1) / 2
    return (above - first * second / 2) / math.sqrt(first * second * (first + second + 1) / 12)


def rank_trend(values: Sequence[float]) -> float:
    """How clearly the values rise, in standard errors of Fisher's transform of Spearman's rho."""
    count = len(values)
    if count < 4:
        return 0.0
    middle = (count + 1) / 2
    placed = [rank - middle for rank in ranks(values)]
    spread = math.sqrt(sum(rank**2 for rank in placed) * count * (count**2 - 1) / 12)
    rho = sum((place + 1 - middle) * rank for place, rank in enumerate(placed)) / spread if spread else 0.0
    return math.atanh(max(-_NEARLY_ONE, min(_NEARLY_ONE, rho))) * math.sqrt((count - 3) / 1.06)
