"""Two loss curves on one axis: tokens, time or FLOPs. Who is ahead, and since when.

An evaluation is a sample, so a difference within the noise of both curves is a tie, and a lead that small is none.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from nanopace.diagnosis.fit import curve_noise

Leader = Literal["a", "b", "tie"]

_MOST_POINTS = 12  # in a table
_ENOUGH_SHARED = 3  # evaluations at the very same point, to do without interpolation
_SMALLEST = 0.002  # a difference below this is a tie, whatever the noise
_UNKNOWN_NOISE = 0.005  # of one evaluation, where a curve is too short to tell
_APART = 1 + 1e-12  # times: closer points have the same logarithm
_CLEAR = 2.0  # standard deviations of the difference


@dataclass(frozen=True, slots=True)
class Curve:
    """Losses over an axis. `xs` rise and are above zero: the untrained model has no place on a log axis."""

    xs: tuple[float, ...]
    ys: tuple[float, ...]

    @classmethod
    def through(cls, points: Iterable[tuple[float | None, float | None]]) -> Curve:
        """Leaves out what is unknown and what does not rise."""
        kept: list[tuple[float, float]] = []
        for x, y in points:
            if x is None or y is None or not (math.isfinite(x) and math.isfinite(y)):
                continue
            if x > (kept[-1][0] * _APART if kept else 0.0):
                kept.append((x, y))
        return cls(tuple(x for x, _ in kept), tuple(y for _, y in kept))

    def at(self, x: float) -> float:
        """Straight between two evaluations over ln x, in which a loss curve is nearly straight; x lies in the curve."""
        right = bisect_left(self.xs, x)
        if self.xs[right] == x:
            return self.ys[right]
        before, after = self.xs[right - 1], self.xs[right]
        weight = (math.log(x) - math.log(before)) / (math.log(after) - math.log(before))  # a quotient may overflow
        return self.ys[right - 1] + weight * (self.ys[right] - self.ys[right - 1])

    @property
    def noise(self) -> float:
        noise = curve_noise(self.xs, self.ys)
        return _UNKNOWN_NOISE if noise is None else noise


@dataclass(frozen=True, slots=True)
class Aligned:
    """Both curves where both are known."""

    points: tuple[tuple[float, float, float], ...] = ()  # (x, a, b); the last is the furthest that both have
    leader: Leader | None = None  # at the last point; None if there is none
    crossover: float | None = None  # since when that leader is ahead, if the other was before


def align(a: Curve, b: Curve) -> Aligned:
    """Compare two curves on the stretch that they share."""
    if not a.xs or not b.xs:
        return Aligned()
    start, end = max(a.xs[0], b.xs[0]), min(a.xs[-1], b.xs[-1])
    if start > end:
        return Aligned()
    tie = max(_SMALLEST, _CLEAR * math.hypot(a.noise, b.noise))
    everywhere = sorted({x for x in (*a.xs, *b.xs) if start <= x <= end})
    leads = [(x, a.at(x) - b.at(x)) for x in everywhere]  # above zero where b is ahead
    last = leads[-1][1]
    leader: Leader = "tie" if abs(last) <= tie else "b" if last > 0 else "a"
    points = tuple((x, a.at(x), b.at(x)) for x in _table(a, b, start, end))
    return Aligned(points, leader, None if leader == "tie" else _crossover(leads, tie))


def _table(a: Curve, b: Curve, start: float, end: float) -> list[float]:
    """Where to compare: at evaluations that both have, else at those of the curve with fewer; the end always."""
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
    for (x, lead), (next_x, next_lead) in pairwise(leads[clearly_behind[-1] :]):
        if next_lead * sign > 0:
            return x + (next_x - x) * lead / (lead - next_lead)
    return None
