from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from nanopace.diagnosis.levels import drift, level_starts


def series(count: int, factor: Callable[[int], float], noise: float = 0.003, seed: int = 3) -> list[float]:
    noisy = random.Random(seed)
    return [math.log(factor(position) * 170.0) + noisy.gauss(0, noise) for position in range(count)]


@pytest.mark.parametrize("noise", [0.0, 0.003, 0.05, 0.2])
@pytest.mark.parametrize("count", [1, 9, 10, 60, 400, 3000])
def test_noise_is_one_level(count: int, noise: float) -> None:
    for seed in range(5):
        assert level_starts(series(count, lambda _: 1.0, noise, seed)) == [0]


@pytest.mark.parametrize("change", [0.94, 1.05, 2.0])
@pytest.mark.parametrize(("count", "at"), [(12, 6), (200, 20), (200, 100), (200, 190)])
def test_a_shift_is_found_where_it_is(count: int, at: int, change: float) -> None:
    assert level_starts(series(count, lambda position: change if position >= at else 1.0)) == [0, at]


def test_a_shift_in_a_long_log_is_found_to_the_block() -> None:
    starts = level_starts(series(40_000, lambda position: 1.1 if position >= 25_010 else 1.0))
    assert len(starts) == 2
    assert abs(starts[1] - 25_010) <= 80


def test_a_bump_has_two_edges() -> None:
    assert level_starts(series(200, lambda position: 1.5 if 80 <= position < 100 else 1.0)) == [0, 80, 100]


@pytest.mark.parametrize("spikes", [{50}, {50, 51, 52, 53}, {0, 99}, {96, 97, 98, 99}])
def test_spikes_are_no_level(spikes: set[int]) -> None:
    assert level_starts(series(100, lambda position: 20.0 if position in spikes else 1.0)) == [0]


def test_two_per_cent_are_no_shift() -> None:
    assert level_starts(series(200, lambda position: 1.02 if position >= 100 else 1.0)) == [0]


@pytest.mark.parametrize("whole", [0.03, 0.3, -0.2])
def test_a_drift_is_a_drift_and_no_shift(whole: float) -> None:
    logs = series(200, lambda position: 1 + whole * position / 199)
    assert level_starts(logs) == [0]
    assert drift(logs) == pytest.approx(whole, rel=0.15)


@pytest.mark.parametrize("noise", [0.003, 0.1])
def test_noise_is_no_drift(noise: float) -> None:
    assert [drift(series(200, lambda _: 1.0, noise, seed)) for seed in range(20)] == [None] * 20


def test_up_and_down_is_no_drift() -> None:
    assert drift(series(200, lambda position: 1 + 0.1 * math.sin(position / 10))) is None
