"""Two loss curves on one axis (tokens, time or FLOPs): which run is ahead, and since when.

The run with the lowest loss so far is ahead, even if its current loss is higher: its best checkpoint is kept, and later
overfitting does not change that. An evaluation is a sample, so a difference within the noise of both curves is a tie.
If there are too few evaluations to estimate the noise, only a large difference counts as a lead, and a smaller one is
left open.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Literal

from nanopace.diagnosis.loss.trend import curve_noise, noise_of_a_bent_curve
from nanopace.diagnosis.result import Diagnosis

Leader = Literal["a", "b", "tie"]

_MOST_POINTS = 12  # in a table
_ENOUGH_SHARED = 3  # evaluations at exactly the same point; interpolation is not needed then
_SMALLEST = 0.002  # a smaller difference is always a tie
LARGE = 0.01  # of the loss: a larger difference counts even if the noise is unknown
_APART = 1 + 1e-12  # times: points closer than this have the same logarithm
_FEWEST = 8  # evaluations: with fewer, the bend of the curve looks like noise
CLEAR = 2.0  # standard deviations of the difference


@dataclass(frozen=True, slots=True)
class Curve:
    """Losses over an axis. `xs` increase and are positive: the untrained model has no place on a log axis."""

    xs: tuple[float, ...]
    ys: tuple[float, ...]
    error: float | None = None  # standard error of an evaluation, if the trainer prints it

    @classmethod
    def through(cls, points: Iterable[tuple[float | None, float | None]], error: float | None = None) -> Curve:
        """Build a curve, leaving out unknown points and those that do not increase in x."""
        kept: list[tuple[float, float]] = []
        for x, y in points:
            if x is None or y is None or not (math.isfinite(x) and math.isfinite(y)):
                continue
            if x > (kept[-1][0] * _APART if kept else 0.0):
                kept.append((x, y))
        return cls(tuple(x for x, _ in kept), tuple(y for _, y in kept), error)

    def at(self, x: float) -> float:
        """The loss at x, which must be within the curve. Interpolates over ln x, where a loss curve is nearly
        straight."""
        right = bisect_left(self.xs, x)
        if self.xs[right] == x:
            return self.ys[right]
        before, after = self.xs[right - 1], self.xs[right]
        weight = (math.log(x) - math.log(before)) / (math.log(after) - math.log(before))  # a quotient may overflow
        return self.ys[right - 1] + weight * (self.ys[right] - self.ys[right - 1])

    @property
    def noise(self) -> float | None:
        """The noise of one evaluation: as printed by the trainer, or from the scatter around the trend; None with too
        few evaluations. If the curve turns up, only the part to its minimum counts, because the bend is not noise."""
        if self.error is not None or not self.ys:
            return self.error
        lowest = min(self.ys)
        until = self.ys.index(lowest) + 1 if self.ys[-1] - lowest > LARGE * abs(lowest) else len(self.ys)
        if until < _FEWEST:
            return None
        straight, bent = (noise(self.xs[:until], self.ys[:until]) for noise in (curve_noise, noise_of_a_bent_curve))
        return None if straight is None or bent is None else min(straight, bent)

    def falls_to(self, x: float) -> bool:
        """Whether a loss up to x is lower than the first, so that one before the first was hardly lower still."""
        return bool(self.ys) and self.ys[0] - min(self.ys[: bisect_right(self.xs, x)], default=math.inf) > _SMALLEST

    def best_so_far(self) -> Curve:
        """The lowest loss up to each point."""
        return Curve(self.xs, tuple(accumulate(self.ys, min)), self.error)


@dataclass(frozen=True, slots=True)
class Aligned:
    """Both curves where they overlap."""

    points: tuple[tuple[float, float, float], ...] = ()  # (x, best of a so far, of b); the last is the end of both
    leader: Leader | None = None  # at the last point; None if there is none or the noise is unknown
    crossover: float | None = None  # where this leader took the lead, if the other was ahead before


def trained_curve(run: Diagnosis, places: Sequence[float | None] | None = None) -> Curve:
    """The validation curve over its iterations or other places, without the untrained model, which is useless for
    interpolation."""
    iterations = run.curves.eval_iteration
    evaluations = zip(iterations, iterations if places is None else places, run.curves.eval_val, strict=True)
    return Curve.through(((place, val) for at, place, val in evaluations if at > 0), run.loss.best_val_error)


def align(a: Curve, b: Curve) -> Aligned:
    """Compare two curves where they overlap."""
    if not a.xs or not b.xs:
        return Aligned()
    start, end = max(a.xs[0], b.xs[0]), min(a.xs[-1], b.xs[-1])
    if start > end:
        return Aligned()
    noises = a.noise, b.noise
    a, b = a.best_so_far(), b.best_so_far()
    everywhere = sorted({x for x in (*a.xs, *b.xs) if start <= x <= end})
    leads = [(x, a.at(x) - b.at(x)) for x in everywhere]  # positive where b is ahead
    points = tuple((x, a.at(x), b.at(x)) for x in _table(a, b, start, end))
    last, tie = leads[-1][1], largest_tie(noises, max(points[-1][1:]))
    if abs(last) <= tie:
        return Aligned(points, None if None in noises and last else "tie")
    return Aligned(points, "b" if last > 0 else "a", _crossover(leads, tie))


def largest_tie(noises: Sequence[float | None], loss: float) -> float:
    """The largest difference that still counts as a tie."""
    known = [noise for noise in noises if noise is not None]
    tie = max(_SMALLEST, CLEAR * math.hypot(*known))
    return tie if len(known) == len(noises) else max(tie, LARGE * abs(loss))


def _table(a: Curve, b: Curve, start: float, end: float) -> list[float]:
    """Where to compare: at shared evaluations, or at those of the curve with fewer; always at the end."""
    of_a = [x for x in a.xs if start <= x <= end]
    of_b = [x for x in b.xs if start <= x <= end]
    shared = sorted(set(of_a) & set(of_b))
    chosen = shared if len(shared) >= _ENOUGH_SHARED else min(of_a, of_b, key=len)
    if not chosen or chosen[-1] != end:
        chosen = [*chosen, end]
    if len(chosen) <= _MOST_POINTS:
        return chosen
    return [chosen[round(k * (len(chosen) - 1) / (_MOST_POINTS - 1))] for k in range(_MOST_POINTS)]


def _crossover(leads: list[tuple[float, float]], tie: float) -> float | None:
    """The first change of lead after which the earlier leader is never clearly ahead again."""
    sign = math.copysign(1.0, leads[-1][1])
    clearly_behind = [index for index, (_, lead) in enumerate(leads) if lead * sign < -tie]
    if not clearly_behind:
        return None
    later = pairwise(leads[clearly_behind[-1] :])
    return next(
        x + (next_x - x) * lead / (lead - next_lead) for (x, lead), (next_x, next_lead) in later if next_lead * sign > 0
    )
