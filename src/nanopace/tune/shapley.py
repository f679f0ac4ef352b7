"""Which change made the difference: the difference between two settings, divided among the knobs that differ.

A Shapley value is what a knob changes on average over all orders in which the knobs could have been changed one by one.
The values of all knobs add up to the total difference. Each combination of knobs is measured several times; the scatter
of the repeats, pooled over all combinations, is the error of one measurement. The error of each value follows from it,
because a value is a weighted sum of measurements.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean

from nanopace.tune.student import student

Players = frozenset[str]

MOST_EXHAUSTIVE = 4  # players: 16 combinations; beyond that, orders are drawn


@dataclass(frozen=True, slots=True)
class Share:
    """What one player contributed, with half the width of its 95% interval; None: nothing was measured twice."""

    player: str
    value: float
    error: float | None

    @property
    def shows(self) -> bool:
        """Whether it exceeds the noise."""
        return self.error is not None and abs(self.value) > self.error


def coalitions(players: Sequence[str], orders: int, seed: int) -> list[Players]:
    """The combinations to measure: all of them, or those along some orders, each with its reverse."""
    if len(players) <= MOST_EXHAUSTIVE:
        return [frozenset(some) for size in range(len(players) + 1) for some in combinations(players, size)]
    found: dict[Players, None] = {}
    for order in drawn_orders(players, orders, seed):
        for count in range(len(order) + 1):
            found[frozenset(order[:count])] = None
    return list(found)


def drawn_orders(players: Sequence[str], count: int, seed: int) -> list[tuple[str, ...]]:
    """Every second order is the reverse of the one before, which reduces the variance."""
    draw = random.Random(seed)
    orders: list[tuple[str, ...]] = []
    while len(orders) < count:
        order = tuple(draw.sample(players, len(players)))
        orders += [order, order[::-1]]
    return orders[:count]


def shares(
    players: Sequence[str],
    measured: Mapping[Players, Sequence[float]],
    orders: Sequence[Sequence[str]] = (),
    *,
    paired: bool = False,
) -> list[Share]:
    """The share of each player, from all combinations or, with `orders`, from those along them. `paired`: see
    `scatter`."""
    weigh = _weights if not orders else lambda player, _: _weights_along(player, orders)
    deviation, freedom = scatter(measured, paired=paired)
    means = {players: fmean(values) for players, values in measured.items()}
    found = []
    for player in players:
        weights = weigh(player, players)
        value = sum(weight * means[some] for some, weight in weights.items())
        error = None
        if deviation is not None:
            variance = sum(weight**2 * deviation**2 / len(measured[some]) for some, weight in weights.items())
            error = student(0.95, freedom) * math.sqrt(variance + _variance_of_orders(player, orders, means))
        found.append(Share(player, value, error))
    return found


def _weights(player: str, players: Sequence[str]) -> dict[Players, float]:
    """The weight of each combination in the value of one player, over all orders."""
    others = [each for each in players if each != player]
    weights = {}
    for size in range(len(others) + 1):
        share = math.factorial(size) * math.factorial(len(others) - size) / math.factorial(len(players))
        for some in combinations(others, size):
            weights[frozenset(some)] = -share
            weights[frozenset((*some, player))] = share
    return weights


def _weights_along(player: str, orders: Sequence[Sequence[str]]) -> dict[Players, float]:
    weights: dict[Players, float] = {}
    for order in orders:
        at = list(order).index(player)
        before, after = frozenset(order[:at]), frozenset(order[: at + 1])
        weights[before] = weights.get(before, 0.0) - 1 / len(orders)
        weights[after] = weights.get(after, 0.0) + 1 / len(orders)
    return weights


def scatter(measured: Mapping[Players, Sequence[float]], *, paired: bool = False) -> tuple[float | None, int]:
    """The standard deviation of one measurement, and its degrees of freedom. `paired`: the repeats of the same number
    have something in common, such as a seed, which is not counted, since it cancels in differences."""
    rest = [[value - fmean(values) for value in values] for values in measured.values()]
    freedom = sum(len(values) - 1 for values in rest)
    if paired:
        common = [fmean(some) for some in zip(*rest, strict=True)]
        rest = [[value - part for value, part in zip(values, common, strict=True)] for values in rest]
        freedom -= len(common) - 1
    if freedom <= 0:
        return None, 0
    return math.sqrt(sum(value**2 for values in rest for value in values) / freedom), freedom


def _variance_of_orders(player: str, orders: Sequence[Sequence[str]], means: Mapping[Players, float]) -> float:
    """The variance of a mean over drawn orders. It counts measurement noise a second time, which errs on the safe
    side."""
    if len(orders) < 2:
        return 0.0
    changes = []
    for order in orders:
        at = list(order).index(player)
        changes.append(means[frozenset(order[: at + 1])] - means[frozenset(order[:at])])
    mean = fmean(changes)
    return sum((each - mean) ** 2 for each in changes) / (len(changes) - 1) / len(changes)


def schedule(of: Sequence[Players], repeats: int, seed: int) -> list[tuple[Players, int]]:
    """The order of the measurements: every round measures all combinations, each round in its own order, so that a
    machine whose speed drifts affects all of them equally."""
    draw = random.Random(seed)
    return [(some, number) for number in range(repeats) for some in draw.sample(list(of), len(of))]
