from __future__ import annotations

import math
import random
from collections.abc import Callable
from itertools import permutations
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanopace.tune.shapley import Players, coalitions, drawn_orders, scatter, schedule, shares
from nanopace.tune.student import student

NAMES = ("a", "b", "c", "d", "e", "f")


def game(values: dict[Players, float], *noise: float) -> dict[Players, list[float]]:
    return {some: [value + each for each in noise or (0.0,)] for some, value in values.items()}


@given(st.integers(1, 4), st.randoms(use_true_random=False))
def test_it_is_the_mean_over_all_orders_and_adds_up(count: int, draw: random.Random) -> None:
    players = NAMES[:count]
    values = {some: draw.uniform(-5, 5) for some in coalitions(players, 0, 1)}
    found = shares(players, game(values))
    for share in found:
        changes = []
        for order in permutations(players):
            at = order.index(share.player)
            changes.append(values[frozenset(order[: at + 1])] - values[frozenset(order[:at])])
        assert share.value == pytest.approx(fmean(changes))
        assert share.error is None  # nothing was measured twice
    assert sum(share.value for share in found) == pytest.approx(values[frozenset(players)] - values[frozenset()])


def test_of_a_single_change_it_is_a_t_test_of_two_means() -> None:
    found = shares(["a"], {frozenset(): [1.0, 2.0, 3.0], frozenset("a"): [4.0, 5.0, 6.0]})
    assert found[0].value == 3
    assert found[0].error == pytest.approx(student(0.95, 4) * math.sqrt(1 / 3 + 1 / 3))
    assert found[0].shows


@pytest.mark.parametrize("count", [3, 6])  # all combinations, and those along some orders
def test_a_knob_without_effect_is_found_to_have_none_about_19_times_in_20(count: int) -> None:
    """And the interval of a knob with an effect contains it as often."""
    players, draw = NAMES[:count], random.Random(7)
    orders = drawn_orders(players, 8, 3) if count > 4 else []
    held = {"a": 0, "b": 0}
    for _ in range(300):
        measured = {
            some: [0.3 * ("a" in some) + draw.gauss(0, 0.05) for _ in range(3)] for some in coalitions(players, 8, 3)
        }
        found = {share.player: share for share in shares(players, measured, orders)}
        for name, truth in (("a", 0.3), ("b", 0.0)):
            share = found[name]
            held[name] += abs(share.value - truth) <= share.error
    assert min(held.values()) >= 0.92 * 300
    assert count > 4 or max(held.values()) <= 0.98 * 300  # where orders are drawn it is rather too wide than too narrow


def test_what_is_smaller_than_the_spread_does_not_show() -> None:
    measured = game({frozenset(): 0.0, frozenset("a"): 0.1}, -1.0, 1.0)
    assert not shares(["a"], measured)[0].shows
    assert not shares(["a"], game({frozenset(): 0.0, frozenset("a"): 0.1}))[0].shows  # the spread is unknown


def additive(effects: dict[str, float]) -> Callable[[Players], float]:
    return lambda some: sum(effects[each] for each in some)


def test_drawn_orders_give_each_effect_exactly_where_effects_add_up() -> None:
    effects = dict(zip(NAMES, (0.5, -0.2, 0.0, 1.0, 0.1, -0.4), strict=True))
    orders = drawn_orders(NAMES, 5, seed=2)
    assert len(orders) == 5
    assert orders[1] == orders[0][::-1]
    measured = game({some: additive(effects)(some) for some in coalitions(NAMES, 5, seed=2)}, -0.01, 0.01)
    assert len(measured) < 2 ** len(NAMES)
    for share in shares(NAMES, measured, orders):
        assert share.value == pytest.approx(effects[share.player])


def test_every_round_measures_everything_in_an_order_of_its_own() -> None:
    plan = schedule(coalitions(NAMES[:3], 0, 1), 4, seed=5)
    rounds = [[some for some, number in plan if number == each] for each in range(4)]
    assert all(set(each) == set(rounds[0]) and len(each) == 8 for each in rounds)
    assert len({tuple(map(tuple, map(sorted, each))) for each in rounds}) == 4
    assert [number for _, number in plan] == sorted(number for _, number in plan)
    assert plan == schedule(coalitions(NAMES[:3], 0, 1), 4, seed=5)


def test_what_repeats_of_the_same_number_have_in_common_is_not_scatter() -> None:
    """Each seed shifts all settings; the rest has a standard deviation of 0.01."""
    draw, found = random.Random(3), []
    for _ in range(400):
        seeds = [draw.gauss(0, 1) for _ in range(3)]
        measured = {some: [seed + draw.gauss(0, 0.01) for seed in seeds] for some in coalitions(NAMES[:2], 0, 1)}
        deviation, freedom = scatter(measured, paired=True)
        assert freedom == 6  # 4 settings x 3 seeds, less 4 means, less 2 that the seeds have in common
        found.append(deviation**2)
    assert math.sqrt(fmean(found)) == pytest.approx(0.01, rel=0.05)
    assert scatter(measured)[0] > 0.1  # type: ignore[operator]
    assert scatter({frozenset(): [1.0], frozenset("a"): [2.0]}, paired=True) == (None, 0)
