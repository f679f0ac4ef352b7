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
    """The upper one of the middle two: a value that was measured, and no mean of two."""
    return sorted(values)[len(values) // 2]


def weighted_median(values: Sequence[float], weights: Sequence[int]) -> float:
    """The median of values that each stand for `weight` like it."""
    return median(values) if max(weights) == 1 else weighted_quantiles(values, weights, (0.5,))[0]


def weighted_quantiles(values: Sequence[float], weights: Sequence[int], shares: Sequence[float]) -> list[float]:
    """For each share the value that so much of the weight does not exceed."""
    if max(weights) == 1:
        ordered = sorted(values)
        return [ordered[max(0, math.ceil(share * len(ordered)) - 1)] for share in shares]
    pairs = sorted(zip(values, weights, strict=True))
    seen = list(accumulate(weight for _, weight in pairs))
    return [pairs[bisect_left(seen, share * seen[-1])][0] for share in shares]


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


def ranks(values: Sequence[float]) -> list[float]:
    """The place of each value in their order, from 1 on; values that are equal share the mean of their places."""
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
    """How far `after` lies above `before`, in standard errors by Mann and Whitney's test: no outlier bends it."""
    first, second = len(before), len(after)
    above = sum(ranks([*before, *after])[first:]) - second * (second + 1) / 2
    return (above - first * second / 2) / math.sqrt(first * second * (first + second + 1) / 12)


def rank_trend(values: Sequence[float]) -> float:
    """How surely values rise along their sequence, in standard errors of Fisher's transform of Spearman's rho."""
    count = len(values)
    if count < 4:
        return 0.0
    middle = (count + 1) / 2
    placed = [rank - middle for rank in ranks(values)]
    spread = math.sqrt(sum(rank**2 for rank in placed) * count * (count**2 - 1) / 12)
    rho = sum((place + 1 - middle) * rank for place, rank in enumerate(placed)) / spread if spread else 0.0
    return math.atanh(max(-_NEARLY_ONE, min(_NEARLY_ONE, rho))) * math.sqrt((count - 3) / 1.06)
