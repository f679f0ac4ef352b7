"""The trend of a loss curve, and how reliable it is beyond its end.

A loss falls like a + b * t^-c: slowly, towards a floor, but never exactly (warm-up, schedule, data). The power is
searched on a grid, the rest is a least-squares fit. Three things widen the interval: the noise of an evaluation, all
powers that fit almost as well as the best, and the disagreement between fits over shorter windows. The last one keeps
it honest on real curves, which follow the law only approximately.

These are named tuples because each dataclass would add a millisecond to every start.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from nanopace.medians import median

_POWERS = tuple(0.05 * 1.1**k for k in range(32))  # up to 0.96: a steeper fall belongs to the warm-up
_WINDOWS = (0.2, 0.35, 0.5)  # each fit leaves out everything before this share of the run
_FEWEST = 8  # points for any fit ...
_FEWEST_IN_WINDOW = 6  # ... and for one window: three parameters, and as many to judge them
_MOST = 400  # points used for a fit
Z80 = 1.2815515655446004  # 80% of a normal distribution lie within +- this
MAD = 1.4826022185056018  # standard deviation over median absolute deviation, for normal noise


class Band(NamedTuple):
    """An expected value and its 80% interval."""

    value: float
    low: float
    high: float


class _Line(NamedTuple):
    """Least squares for one power: y = floor + scale * x with x = (t / end)^-power."""

    power: float
    floor: float
    scale: float
    mean_x: float
    sxx: float
    squares: float  # sum of the squared residuals

    def at(self, ratio: float) -> float:
        return self.floor + self.scale * math.pow(ratio, -self.power)


class _Fit(NamedTuple):
    """The best power for one window, and all powers that fit almost as well."""

    best: _Line
    likely: tuple[_Line, ...]
    points: int
    variance: float  # of one point
    inflation: float  # of the mean's variance, because neighbouring errors are similar

    def at(self, ratio: float) -> Band:
        value = self.best.at(ratio)
        others = [line.at(ratio) for line in self.likely]
        offset = math.pow(ratio, -self.best.power) - self.best.mean_x
        mean = self.variance * self.inflation * (1 / self.points + offset * offset / self.best.sxx)
        noise = student80(self.points - 3) * math.sqrt(mean + self.variance)
        return Band(
            value, value - math.hypot(value - min(others), noise), value + math.hypot(max(others) - value, noise)
        )


class Trend(NamedTuple):
    """A fitted curve that can be evaluated at later iterations."""

    end: float
    fits: tuple[_Fit, ...]

    def at(self, iteration: float) -> Band:
        """The expected loss at that iteration, if nothing changes."""
        bands = [fit.at(iteration / self.end) for fit in self.fits]
        value = sum(band.value for band in bands) / len(bands)
        return Band(value, min(band.low for band in bands), max(band.high for band in bands))


def fit_trend(iterations: Sequence[float], losses: Sequence[float]) -> Trend | None:
    """Fit a falling trend; None if there are too few points or the curve does not fall."""
    points = [(t, y) for t, y in zip(iterations, losses, strict=True) if t > 0 and math.isfinite(y)]
    if len(points) < _FEWEST:
        return None
    points = points[:: -max(1, math.ceil(len(points) / _MOST))][::-1]  # thinned from the end, which is kept
    end = points[-1][0]
    fits = []
    for share in _WINDOWS:
        window = [(t / end, y) for t, y in points if t >= share * end]
        if len(window) >= _FEWEST_IN_WINDOW and (fit := _fit(window)):
            fits.append(fit)
    return Trend(end, tuple(fits)) if fits else None


def _fit(window: Sequence[tuple[float, float]]) -> _Fit | None:
    lines = [line for power in _POWERS if (line := _line(window, power))]
    if not lines:
        return None
    index = min(range(len(lines)), key=lambda k: lines[k].squares)
    best = lines[index]
    freedom = len(window) - 3
    inflation = _inflation([y - best.at(t) for t, y in window])
    allowed = best.squares * (1 + student80(freedom) ** 2 * inflation / freedom)
    neighbours = lines[max(0, index - 1) : index + 2]  # the grid is coarse: the true power lies between two of them
    likely = (*neighbours, *(line for line in lines if line.squares <= allowed))
    return _Fit(best, likely, len(window), best.squares / freedom, inflation)


def _line(window: Sequence[tuple[float, float]], power: float) -> _Line | None:
    """Fit one power; None if it would need a rising curve or a negative floor."""
    count = len(window)
    xs = [math.pow(t, -power) for t, _ in window]
    mean_x = sum(xs) / count
    mean_y = sum(y for _, y in window) / count
    sxx = sum((x - mean_x) ** 2 for x in xs)
    sxy = sum((x - mean_x) * (y - mean_y) for x, (_, y) in zip(xs, window, strict=True))
    if sxx <= 0 or sxy <= 0:
        return None
    scale = sxy / sxx
    floor = mean_y - scale * mean_x
    if floor < 0:
        return None
    squares = sum((y - floor - scale * x) ** 2 for x, (_, y) in zip(xs, window, strict=True))
    return _Line(power, floor, scale, mean_x, sxx, squares)


def _inflation(residuals: Sequence[float]) -> float:
    """How much less certain a mean is because neighbouring residuals are similar: (1 + r) / (1 - r)."""
    squares = sum(r * r for r in residuals)
    if squares <= 0:
        return 1.0
    correlation = sum(p * q for p, q in pairwise(residuals)) / squares
    correlation = min(max(correlation, 0.0), 0.8)
    return (1 + correlation) / (1 - correlation)


def student80(freedom: int) -> float:
    """Student's t for a two-sided 80% interval (Cornish-Fisher; within 1% for three or more degrees of freedom)."""
    z = Z80
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    return z + first / freedom + second / freedom**2


def slope(xs: Sequence[float], ys: Sequence[float]) -> tuple[float, float] | None:
    """The slope of a fitted line and its standard error; None with fewer than four points."""
    count = len(xs)
    if count < 4:
        return None
    mean_x, mean_y = sum(xs) / count, sum(ys) / count
    sxx = sum((x - mean_x) ** 2 for x in xs)
    if sxx <= 0:
        return None
    rise = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / sxx
    squares = sum((y - mean_y - rise * (x - mean_x)) ** 2 for x, y in zip(xs, ys, strict=True))
    return rise, math.sqrt(squares / (count - 2) / sxx)


def curve_noise(xs: Sequence[float], ys: Sequence[float]) -> float | None:
    """The standard deviation of the later half of a curve: the distance of each point from the line between its
    neighbours.

    The line is drawn over ln x, where a loss curve is nearly straight. None with fewer than six points.
    """
    if len(xs) < 6:
        return None
    first = max(1, min(len(xs) // 2, len(xs) - 5))
    scores = []
    for i in range(first, len(xs) - 1):
        before, here, after = math.log(xs[i - 1]), math.log(xs[i]), math.log(xs[i + 1])
        weight = (here - before) / (after - before)
        expected = ys[i - 1] + weight * (ys[i + 1] - ys[i - 1])
        scores.append(abs(ys[i] - expected) / math.sqrt(1 + weight**2 + (1 - weight) ** 2))
    return median(scores) * MAD


def noise_of_a_bent_curve(xs: Sequence[float], ys: Sequence[float]) -> float | None:
    """The same from parabolas: four neighbours over ln x, and how far they are from the best one. It tells noise from
    the bend of a curve with few points, which no line follows."""
    if len(xs) < 6:
        return None
    places, scores = [math.log(x) for x in xs], []
    for i in range(max(0, min(len(xs) // 2, len(xs) - 5) - 1), len(xs) - 3):
        here = places[i : i + 4]
        weights = [1 / math.prod(x - other for other in here if other != x) for x in here]
        apart = sum(weight * y for weight, y in zip(weights, ys[i : i + 4], strict=True))
        scores.append(abs(apart) / math.hypot(*weights))
    return median(scores) * MAD


def step_noise(ys: Sequence[float], counts: Sequence[int] = (1,)) -> float:
    """The standard deviation around a slow trend, from differences of neighbours; needs three values.

    A value may be the mean of several, given in `counts`, and is then less noisy.
    """
    differences = [q - p for p, q in pairwise(ys)]
    if max(counts) > 1:
        expected = [math.sqrt((1 / m + 1 / n) / 2) for m, n in pairwise(counts)]
        differences = [difference / each for difference, each in zip(differences, expected, strict=True)]
    middle = median(differences)
    return median([abs(d - middle) for d in differences]) * MAD / math.sqrt(2)
