from __future__ import annotations

import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanopace.medians import (
    median,
    rank_difference,
    rank_trend,
    ranks,
    rolling_median,
    upper_median,
    weighted_median,
    weighted_quantiles,
)

values = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60)


@given(values)
def test_median_is_the_median(numbers: list[float]) -> None:
    assert median(numbers) == statistics.median(numbers)
    assert upper_median(numbers) == statistics.median_high(numbers)


@given(st.lists(st.tuples(st.floats(-1e6, 1e6), st.integers(1, 5)), min_size=1, max_size=20))
def test_a_weight_is_that_many_like_it(pairs: list[tuple[float, int]]) -> None:
    spelled_out = [value for value, weight in pairs for _ in range(weight)]
    found = weighted_median([value for value, _ in pairs], [weight for _, weight in pairs])
    assert found in {statistics.median_low(spelled_out), statistics.median(spelled_out)}


@given(values, st.integers(1, 30))
def test_rolling_median_is_the_median_of_each_window(numbers: list[float], half: int) -> None:
    plain = [statistics.median(numbers[max(0, at - half) : at + half + 1]) for at in range(len(numbers))]
    assert rolling_median(numbers, half) == plain


@given(values)
def test_ranks_are_places_in_the_order(numbers: list[float]) -> None:
    found = ranks(numbers)
    assert sum(found) == len(numbers) * (len(numbers) + 1) / 2
    for one, rank in zip(numbers, found, strict=True):
        below, equal = sum(each < one for each in numbers), numbers.count(one)
        assert rank == below + (equal + 1) / 2


def test_a_rank_difference_is_in_standard_errors() -> None:
    assert rank_difference([1.0, 2.0, 3.0], [1.0, 2.0, 3.0]) == 0
    assert rank_difference([1.0] * 8, [2.0] * 8) == pytest.approx(32 / (64 * 17 / 12) ** 0.5)
    assert rank_difference([2.0, 1e9], [1.0, 0.0]) == -rank_difference([1.0, 0.0], [2.0, 3.0])


def test_a_rank_trend_is_in_standard_errors() -> None:
    assert rank_trend([1.0, 2.0]) == rank_trend([5.0] * 50) == 0
    dice = random.Random(1)
    trends = [rank_trend([dice.random() for _ in range(30)]) for _ in range(2000)]
    assert statistics.stdev(trends) == pytest.approx(1, abs=0.05)
    assert rank_trend([float(each) for each in range(30)]) > 10


def test_quantiles_go_by_weight() -> None:
    assert weighted_quantiles([3.0, 1.0, 2.0], [1, 8, 1], (0.1, 0.8, 0.9, 1.0)) == [1.0, 1.0, 2.0, 3.0]
