"""The final validation loss of a run whose learning rate is constant, then falls linearly to the end.

In the cooldown, the loss falls much faster than before, so a trend of the past ends too high. One law for all runs:

    ln L = level + slope * (x^-c - 1) / c + drop * (2 * share)^j * (1 - rate)

x is the sum of the learning rates so far, relative to the sum of the whole run; `share` is the part of the run in which
the rate falls. The level is unknown and wanders, most of all early in a run. Slope and drop are about the same in every
run: the law has their mean and their spread, and each evaluation corrects level, slope and drop (a Kalman filter). So
one evaluation is enough for a forecast, many make it narrower, and no run is expected to end at a certain loss.

The law was fitted to half of modded-nanogpt's logs; bench/forecast.py tests it on the other half. The limits below are
about those of the first half; for other runs there is no evidence, and no forecast (docs/experiments/forecast.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from nanopace.diagnosis.loss.trapezoid import Trapezoid
from nanopace.diagnosis.loss.trend import Band

_EARLIEST = 0.05  # of the run: before, the loss still falls from ln(vocabulary), which the law does not describe
_FIRST = 0.08  # of the run: earlier forecasts held in one of two records that do not end near 3.28
_ENDS = (1000, 10_000)  # iterations of the run: 1,395 to 7,500; at 20,344, a forecast from 10% was off by 0.22
_SHARES = (0.25, 0.75)  # of the cooldown: 0.28 to 0.70; at 1.0, forecasts were off by up to 0.10
_LOSSES = (2.5, 4.0)  # final: 2.92 to 3.34, on web text with GPT-2's vocabulary
_WIDTH = 1.3  # half of the 80% interval in standard deviations: for 80% of the records of the half "fit" at 30%
_WIDTH_EARLY = 0.2  # the same over x, early on: 1.9 at a tenth of the run, also from the half "fit"
_NARROWEST = 0.005  # of the loss: in a long cooldown, the law itself is off by so much (chosen on both halves)
_MOST = 200  # evaluations used: more add nothing
_ANY_LEVEL = 100.0  # variance of the level before the first evaluation: nothing is known


class Law(NamedTuple):
    """Fitted to the logs of 36 records, each with the same weight; `bench/forecast.py --fit` starts from here."""

    power: float = 0.341  # c
    slope: float = 0.066  # of a run of 2,000 iterations ...
    slope_by_length: float = -0.0237  # ... and how it changes with ln(iterations / 2,000): longer runs end flatter
    slope_spread: float = 0.003  # standard deviation between runs
    drop: float = -0.0503  # a cooldown over half of the run lowers the loss by 4.9%
    drop_spread: float = 0.0027
    share_power: float = 0.81  # j: twice as long a cooldown lowers the loss by somewhat less than twice as much
    wander: float = 0.0037  # of the level: standard deviation per e-fold of x, at the end of the run ...
    wander_early: float = 0.51  # ... its variance grows with x to the minus this
    noise: float = 0.0007  # of an evaluation


LAW = Law()


class _State(NamedTuple):
    """What is known of level, slope and drop: their means and covariances."""

    mean: tuple[float, float, float]
    spread: tuple[tuple[float, ...], ...]

    def seen(self, parts: tuple[float, float, float]) -> tuple[float, float]:
        """The expected logarithm of the loss, and its variance."""
        row = self._times(parts)
        return _dot(parts, self.mean), _dot(parts, row)

    def corrected(self, parts: tuple[float, float, float], value: float, noise: float) -> _State:
        row = self._times(parts)
        expected, variance = self.seen(parts)
        gain = [each / (variance + noise * noise) for each in row]
        mean = tuple(m + g * (value - expected) for m, g in zip(self.mean, gain, strict=True))
        spread = tuple(
            tuple(v - g * r for v, r in zip(line, row, strict=True)) for line, g in zip(self.spread, gain, strict=True)
        )
        return _State((mean[0], mean[1], mean[2]), spread)

    def wandered(self, variance: float) -> _State:
        (first, *rest), *others = self.spread
        return _State(self.mean, ((first + variance, *rest), *map(tuple, others)))

    def _times(self, parts: tuple[float, float, float]) -> list[float]:
        return [_dot(line, parts) for line in self.spread]


def _dot(xs: Sequence[float], ys: Sequence[float]) -> float:
    return sum(x * y for x, y in zip(xs, ys, strict=True))


def final_loss(curve: Sequence[tuple[int, float]], schedule: Trapezoid, law: Law = LAW) -> Band | None:
    """The loss at the end of the schedule and its 80% interval, from the evaluations (iteration, loss) so far.

    None if no evaluation is late enough, if the run is over, or if it is unlike the runs that the law is tested on.
    """
    end = schedule.end
    seen = [(t, loss) for t, loss in curve if max(schedule.rise, _EARLIEST * end) <= t and loss > 0]
    if not seen or not _FIRST * end <= seen[-1][0] < end or not _is_tested(schedule):
        return None
    seen = seen[:: -max(1, math.ceil(len(seen) / _MOST))][::-1]  # thinned from the end, which is kept
    slope = law.slope + law.slope_by_length * math.log(end / 2000)
    state = _State(
        (0.0, slope, law.drop),
        ((_ANY_LEVEL, 0.0, 0.0), (0.0, law.slope_spread**2, 0.0), (0.0, 0.0, law.drop_spread**2)),
    )
    last = None
    for t, loss in seen:
        x = _progress(schedule, t)
        if last is not None:
            state = state.wandered(_wandering(law, last, x))
        state = state.corrected(_parts(law, schedule, t), math.log(loss), law.noise)
        last = x
    assert last is not None
    expected, variance = state.wandered(_wandering(law, last, 1.0)).seen(_parts(law, schedule, end))
    width = max(_NARROWEST, max(_WIDTH, _WIDTH_EARLY / last) * math.sqrt(variance + law.noise**2))
    band = Band(math.exp(expected), math.exp(expected - width), math.exp(expected + width))
    return band if _LOSSES[0] <= band.value <= _LOSSES[1] else None


def _is_tested(schedule: Trapezoid) -> bool:
    return _ENDS[0] <= schedule.end <= _ENDS[1] and _SHARES[0] <= schedule.share <= _SHARES[1]


def _progress(schedule: Trapezoid, iteration: float) -> float:
    return schedule.rates_until(iteration) / schedule.rates_until(schedule.end)


def _parts(law: Law, schedule: Trapezoid, iteration: float) -> tuple[float, float, float]:
    """What level, slope and drop are multiplied by."""
    x = _progress(schedule, iteration)
    fallen = 1 - schedule.rate(iteration)
    return 1.0, (math.pow(x, -law.power) - 1) / law.power, math.pow(2 * schedule.share, law.share_power) * fallen


def _wandering(law: Law, since: float, until: float) -> float:
    """The variance of the level's change from one x to the next."""
    power = law.wander_early
    return law.wander * law.wander * (math.pow(since, -power) - math.pow(until, -power)) / power
