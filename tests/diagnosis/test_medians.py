from __future__ import annotations

import statistics

from hypothesis import given
from hypothesis import strategies as st

from nanopace.diagnosis.medians import median, rolling_median, weighted_median

values = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60)


@given(values)
def test_median_is_the_median(numbers: list[float]) -> None:
    assert median(numbers) == statistics.median(numbers)


@given(st.lists(st.tuples(st.floats(-1e6, 1e6), st.integers(1, 5)), min_size=1, max_size=20))
def test_a_weight_is_that_many_like_it(pairs: list[tuple[float, int]]) -> None:
    spelled_out = [value for value, weight in pairs for _ in range(weight)]
    found = weighted_median([value for value, _ in pairs], [weight for _, weight in pairs])
    assert found in {statistics.median_low(spelled_out), statistics.median(spelled_out)}


@given(values, st.integers(1, 30))
def test_rolling_median_is_the_median_of_each_window(numbers: list[float], half: int) -> None:
    plain = [statistics.median(numbers[max(0, at - half) : at + half + 1]) for at in range(len(numbers))]
    assert rolling_median(numbers, half) == plain
