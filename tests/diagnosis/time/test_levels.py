from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from nanopace.diagnosis.time.levels import _slope, baseline, drift, fifths, level_starts, trend


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


@pytest.mark.parametrize("spikes", [{50}, {50, 51, 52, 53}, {0, 99}, {96, 97, 98, 99}])
def test_spikes_are_no_level(spikes: set[int]) -> None:
    assert level_starts(series(100, lambda position: 20.0 if position in spikes else 1.0)) == [0]


@pytest.mark.parametrize(
    ("logs", "starts"),
    [
        (series(200, lambda position: 1.5 if 80 <= position < 100 else 1.0), [0, 80, 100]),  # a bump has two edges
        (series(200, lambda position: 1.02 if position >= 100 else 1.0), [0]),  # two per cent are no shift
        (series(60, lambda position: 1.3 if position >= 56 else 1.0), [0]),  # of many rows, four are no level
        (series(60, lambda position: 1 - 0.1 * math.exp(-position / 5), 0.002), [0]),  # warming up along a curve
        *((series(16, lambda at: 1.3 if at >= 12 else 1.0, 0.02, seed), [0, 12]) for seed in range(5)),  # a short log
        (series(12_000, lambda position: 1.3 if position >= 6007 else 1.0, 0.01), [0, 6007]),  # long, and to the row
        (series(40_000, lambda position: 1.1 if position >= 25_010 else 1.0, 0.01), [0, 25_010]),
        (series(3000, lambda position: 0.7 if position >= 2210 else 1.0, 0.01), [0, 2210]),
    ],
)
def test_where_a_level_starts(logs: list[float], starts: list[int]) -> None:
    assert level_starts(logs) == starts


@pytest.mark.parametrize(("rows", "least"), [(5, 0.06), (6, 0.05), (8, 0.0375)])
def test_the_fewer_rows_the_larger_a_shift_must_be(rows: int, least: float) -> None:
    def found(jump: float) -> list[int]:
        return level_starts([0.0] * rows + [jump] * rows)

    assert found(least + 0.001) == [0, rows]
    assert found(least - 0.001) == [0]


@pytest.mark.parametrize("whole", [0.03, 0.3, -0.2])
def test_a_drift_is_a_drift_and_no_shift(whole: float) -> None:
    logs = series(200, lambda position: 1 + whole * position / 199)
    assert level_starts(logs) == [0]
    assert drift(logs) == pytest.approx(whole, rel=0.15)


def test_a_drift_beyond_all_numbers_is_no_error() -> None:
    drift([1400.0 * position / 99 - 700.0 for position in range(100)])


@pytest.mark.parametrize("noise", [0.003, 0.1])
def test_noise_is_no_drift(noise: float) -> None:
    assert [drift(series(200, lambda _: 1.0, noise, seed)) for seed in range(20)] == [None] * 20


def test_up_and_down_is_no_drift() -> None:
    assert drift(series(200, lambda position: 1 + 0.1 * math.sin(position / 10))) is None


def test_rows_of_two_kinds_that_alternate_by_chance_are_one_level() -> None:
    """A third of the rows are slower by a third, at random: their scatter has two sides and no width."""
    found = 0
    for seed in range(200):
        dice = random.Random(seed)
        found += level_starts([0.26 if dice.random() < 0.3 else 0.0 for _ in range(40)]) != [0]
    assert found <= 2


def test_levels_far_apart_are_found_though_each_scatters() -> None:
    logs = series(400, lambda position: 1.8 if 150 <= position < 260 else 1.0, 0.3)
    starts = level_starts(logs)
    assert len(starts) == 3
    assert starts[1] == pytest.approx(150, abs=8)
    assert starts[2] == pytest.approx(260, abs=8)


def test_a_warm_up_is_neither_a_shift_nor_a_drift() -> None:
    logs = series(60, lambda position: 1 + 0.12 * min(1.0, position / 20))
    assert level_starts(logs) == [0]
    assert drift(logs) is None
    assert trend(logs) == 1


def test_a_jump_on_the_way_is_no_drift() -> None:
    assert drift(series(160, lambda position: 1 + 0.3 * position / 160 - (0.2 if 30 <= position < 38 else 0))) is None


@pytest.mark.parametrize(("whole", "expected"), [(0.3, 1), (-0.3, -1), (0.0, 0)])
def test_a_trend_has_a_direction_whatever_the_noise(whole: float, expected: int) -> None:
    for seed in range(20):
        assert trend(series(100, lambda position: 1 + whole * position / 100, 0.1, seed)) == expected


def test_fifths_are_medians_of_the_ends() -> None:
    times = [1.0, 1.0, 9.0, *[5.0] * 10, 2.0, 2.0, 8.0]
    assert fifths(times, [1] * 16) == (1.0, 2.0)
    assert fifths([1.0, 5.0, 2.0, 3.0], [20, 60, 15, 5]) == (1.0, 2.0)


def test_warming_up_is_no_level_where_its_rows_scatter() -> None:
    def warming(position: int) -> float:
        return 1.28 - 0.28 * math.exp(-position / 15)

    found = [level_starts(series(100, warming, 0.05, seed)) for seed in range(60)]
    assert sum(starts != [0] for starts in found) <= 12


def test_the_baseline_follows_a_jump_that_is_no_level_of_its_own() -> None:
    """Nor does it follow a trend that only some of the rows have."""
    logs = series(70, lambda position: 1.0 if position < 10 else 1.6 if position < 60 else 2.6)
    assert baseline(logs)[0] == pytest.approx(math.log(170.0), abs=0.02)
    assert baseline(logs)[35] == pytest.approx(math.log(1.6 * 170.0), abs=0.02)
    assert baseline(logs)[-1] == pytest.approx(math.log(2.6 * 170.0), abs=0.02)


def test_the_baseline_does_not_follow_rows_that_are_held_up() -> None:
    logs = series(60, lambda position: 9.0 if position in (3, 4, 5, 7, 8, 10) else 1.0)
    assert max(baseline(logs)) == pytest.approx(math.log(170.0), abs=0.02)


def test_the_baseline_of_few_rows_follows_a_drift() -> None:
    logs = series(21, lambda position: 1 + 0.3 * position / 20)
    assert baseline(logs)[-1] == pytest.approx(math.log(1.3 * 170.0), abs=0.02)


@pytest.mark.parametrize(("rise", "followed"), [(0.043, False), (0.053, True), (-0.053, True)])
def test_of_few_rows_a_slope_must_stand_out_of_their_scatter(rise: float, followed: bool) -> None:
    """Rows that vary by 0.01 to either side: 4.5 standard errors of two thirds are 0.048."""
    logs = [rise * position / 14 + (0.01 if position % 2 else -0.01) for position in range(20)]
    assert _slope(logs) == (pytest.approx(rise / 14, rel=0.3) if followed else 0.0)


@pytest.mark.parametrize("rows", range(1, 9))
def test_all_rows_of_a_slow_block_are_slow(rows: int) -> None:
    logs = series(200, lambda position: 3.0 if 100 <= position < 100 + rows else 1.0)
    assert max(baseline(logs)) < math.log(170.0 * 1.1)


def test_rows_of_a_short_level_belong_to_it_though_some_are_held_up() -> None:
    logs = series(200, lambda at: (1.3 if 100 <= at < 112 else 1.0) * (4.0 if at in (103, 104, 108) else 1.0))
    assert min(baseline(logs)[100:112]) > math.log(170.0 * 1.25)
