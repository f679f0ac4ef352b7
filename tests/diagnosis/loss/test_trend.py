from __future__ import annotations

import math
import random
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nanopace.diagnosis.loss.trend import Band, _inflation, curve_noise, fit_trend, slope, step_noise, student80


def law(floor: float, scale: float, power: float) -> tuple[list[int], list[float]]:
    iterations = [500 * k for k in range(1, 31)]
    return iterations, [floor + scale * t**-power for t in iterations]


def test_a_law_without_noise_is_found_again() -> None:
    trend = fit_trend(*law(2.5, 40.0, 0.5))
    assert trend is not None
    for iteration in (22_500, 30_000):
        truth = 2.5 + 40 * iteration**-0.5
        band = trend.at(iteration)
        assert band.value == pytest.approx(truth, abs=1e-3)
        assert band.low <= truth <= band.high
        assert band.high - band.low < 0.02


@pytest.mark.usefixtures("untraced")
@pytest.mark.parametrize(("points", "factor"), [(9, 1.5), (20, 1.5), (40, 1.5), (20, 2.0)])
def test_the_interval_keeps_its_promise(points: int, factor: float) -> None:
    """An 80% interval must contain the next evaluation about that often; it may be a bit too wide, never too narrow."""
    rng = random.Random(points)
    held = widths = 0.0
    trials = 120
    for _ in range(trials):
        floor, power, noise = rng.uniform(1.5, 3.2), rng.uniform(0.15, 0.8), rng.choice([0.003, 0.01, 0.03])
        scale = rng.uniform(0.5, 5) * 500**power
        iterations = [500 * k for k in range(1, points + 1)]
        trend = fit_trend(iterations, [floor + scale * t**-power + rng.gauss(0, noise) for t in iterations])
        assert trend is not None
        goal = iterations[-1] * factor
        band = trend.at(goal)
        held += band.low <= floor + scale * goal**-power + rng.gauss(0, noise) <= band.high
        widths += (band.high - band.low) / noise
    assert 0.7 <= held / trials <= 0.99
    assert widths / trials < 25  # an infinite interval would always hold


def test_noise_that_drifts_widens_the_interval() -> None:
    iterations, losses = law(2.5, 40.0, 0.5)
    rng = random.Random(4)
    drift, drifting = 0.0, []
    for loss in losses:
        drift = 0.9 * drift + rng.gauss(0, 0.01)
        drifting.append(loss + drift)
    independent = [loss + rng.gauss(0, 0.01) for loss in losses]

    def width(values: list[float]) -> float:
        trend = fit_trend(iterations, values)
        assert trend is not None
        band = trend.at(20_000)
        return band.high - band.low

    assert width(drifting) > 1.3 * width(independent)


def test_real_curves_stay_in_their_interval(shared_logs: Path) -> None:
    """Forecast 1.5 times ahead from every point of the shared logs, and look up what happened."""
    held = asked = 0
    for path in sorted(shared_logs.glob("*.log")):
        found = re.findall(r"^step (\d+): .* val loss ([\d.]+)", path.read_text(errors="replace"), re.MULTILINE)
        curve = {int(iteration): float(val) for iteration, val in found if int(iteration) > 0}
        for end in curve:
            past = [iteration for iteration in curve if iteration <= end]
            goal = round(end * 1.5 / 500) * 500
            trend = fit_trend(past, [curve[iteration] for iteration in past])
            if trend is not None and goal in curve:
                band = trend.at(goal)
                asked += 1
                held += band.low <= curve[goal] <= band.high
    assert asked >= 30
    assert held / asked >= 0.8


def test_no_trend_where_there_is_none() -> None:
    iterations, losses = law(2.5, 40.0, 0.5)
    assert fit_trend(iterations[:7], losses[:7]) is None
    assert fit_trend(iterations, losses[::-1]) is None
    assert fit_trend(iterations, [3.0] * len(iterations)) is None


def test_a_million_evaluations_are_thinned() -> None:
    iterations = range(1, 100_001)
    trend = fit_trend(iterations, [2 + 3 * t**-0.3 for t in iterations])
    assert trend is not None
    assert trend.end == 100_000
    assert trend.at(150_000).value == pytest.approx(2 + 3 * 150_000**-0.3, abs=2e-3)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=0, max_size=40))
def test_no_curve_makes_it_raise(losses: list[float]) -> None:
    losses = [loss if abs(loss) < 1e12 else math.inf for loss in losses]
    trend = fit_trend(range(len(losses)), losses)
    if trend is not None:
        band = trend.at(60)
        assert isinstance(band, Band)
        assert band.low <= band.value <= band.high


@pytest.mark.parametrize(("freedom", "quantile"), [(3, 1.638), (5, 1.476), (10, 1.372), (40, 1.303)])
def test_student(freedom: int, quantile: float) -> None:
    assert student80(freedom) == pytest.approx(quantile, rel=0.01)


def test_slope_and_its_error() -> None:
    assert slope([1, 2, 3], [1, 2, 3]) is None
    assert slope([2, 2, 2, 2], [1, 2, 3, 4]) is None
    assert slope([0, 1, 2, 3], [1, 3, 5, 7]) == pytest.approx((2.0, 0.0))
    found = slope([0, 1, 2, 3], [1, -1, 1, -1])
    assert found is not None
    assert abs(found[0]) < 2 * found[1]


def test_noise_is_found_beside_a_trend() -> None:
    rng = random.Random(2)
    xs = [500.0 * k for k in range(1, 401)]
    ys = [2 + 30 * x**-0.4 + rng.gauss(0, 0.02) for x in xs]
    assert curve_noise(xs, ys) == pytest.approx(0.02, rel=0.25)
    assert step_noise(ys) == pytest.approx(0.02, rel=0.25)
    assert curve_noise(xs[:5], ys[:5]) is None


def test_a_single_outlier_is_not_noise() -> None:
    ys = [3 - 0.001 * k for k in range(50)]
    ys[30] = 9.0
    assert step_noise(ys) < 1e-6


@pytest.mark.parametrize(
    ("residuals", "inflation"),
    [([0.0, 0.0, 0.0], 1.0), ([1.0, -1.0, 1.0, -1.0], 1.0), ([1.0, 1.0, -1.0, -1.0], 5 / 3), ([1.0] * 50, 9.0)],
)
def test_residuals_that_are_alike_tell_less(residuals: list[float], inflation: float) -> None:
    """A correlation of neighbours counts up to four fifths."""
    assert _inflation(residuals) == pytest.approx(inflation)
