"""The final validation loss of a run whose learning rate falls: along a line at its end, or along a cosine.

While the rate falls, the loss falls faster than before, so a trend of the past ends too high. A law for such runs:

    ln L = level + slope * (x^-c - 1) / c + drop * (2 * share)^j * (1 - rate)

x is the sum of the learning rates so far, relative to the sum of the whole run; `share` is the part of the run in which
the rate falls. The level is unknown and wanders, most of all early in a run. Slope and drop are about the same in every
run: the law has their mean and their spread, and each evaluation corrects level, slope and drop (a Kalman filter). So
one evaluation is enough for a forecast, many make it narrower, and no run is expected to end at a certain loss.

Each kind of schedule has constants of its own. Those for a line were fitted to half of modded-nanogpt's logs and
tested on the other half; those for a cosine come from 16 runs of build-nanogpt and llm.c, and were tested by leaving
out one source at a time (bench/forecast.py). For other runs there is no evidence, and no forecast
(docs/experiments/forecast.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from nanopace.diagnosis.loss.schedule import Schedule, Trapezoid
from nanopace.diagnosis.loss.trend import Band

_EARLIEST = 0.05  # of the run: before, the loss still falls from ln(vocabulary), which no law describes
_SHARES = (0.25, 0.75)  # of the cooldown: 0.28 to 0.70; at 1.0, forecasts were off by up to 0.10
_LOWEST_RATES = (0.0, 0.11)  # where a cosine ends: at zero or a tenth
_LOSSES = (2.5, 4.0)  # final: 2.87 to 3.56, on web text with GPT-2's vocabulary
_NARROWEST = 0.005  # of the loss: in a long cooldown, the law itself is off by so much (chosen on both halves)
_MOST = 200  # evaluations used: more add nothing
_ANY_LEVEL = 100.0  # variance of the level before the first evaluation: nothing is known


class Law(NamedTuple):
    """Every record, or source, has the same weight. `bench/forecast.py --fit` starts from the law for a line."""

    power: float  # c
    slope: float  # of a run of 2,000 iterations ...
    slope_by_length: float  # ... and how it changes with ln(iterations / 2,000): longer runs end flatter
    slope_spread: float  # standard deviation between runs
    drop: float  # of a cooldown over half of the run
    drop_spread: float
    share_power: float  # j: twice as long a cooldown lowers the loss by somewhat less than twice as much
    wander: float  # of the level: standard deviation per e-fold of x, at the end of the run ...
    wander_early: float  # ... its variance grows with x to the minus this
    noise: float = 0.0007  # of an evaluation


class Tested(NamedTuple):
    """The runs that a law was tested on, and how wide its interval has to be to hold for them."""

    ends: tuple[int, int]  # iterations of the run
    first: float  # of the run: when the first forecast is possible
    first_iteration: int
    width: float  # half of the 80% interval in standard deviations
    width_early: float = 0.0  # the same over x, early on


LINE = Law(0.341, 0.066, -0.0237, 0.003, -0.0503, 0.0027, 0.81, 0.0037, 0.51)
COSINE = Law(0.5, 0.0419, 0.0, 0.0074, -0.0552, 0.0069, 0.0, 0.005, 0.3)  # slope and drop: of 16 runs

TESTED_LINE = Tested(
    ends=(1000, 10_000),  # 1,395 to 7,500; at 20,344, a forecast from 10% was off by 0.22
    first=0.08,  # earlier forecasts held in one of two records that do not end near 3.28
    first_iteration=0,
    width=1.3,  # for 80% of the records of the half "fit" at 30%
    width_early=0.2,  # 1.9 at a tenth of the run, also from the half "fit"
)
TESTED_COSINE = Tested(
    ends=(11_000, 21_000),  # 12,000 to 19,622; at 56,000, a forecast from 15% was off by 0.05
    first=0.14,
    first_iteration=1800,  # a run of 12,000 was off by 0.2 at 1,000, and by 0.08 at 1,500
    width=1.6,  # for 75 to 94% of the runs whose source the constants do not come from
)


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


def final_loss(
    curve: Sequence[tuple[int, float]], schedule: Schedule, law: Law | None = None, narrowest: float = _NARROWEST
) -> Band | None:
    """The loss at the end of the schedule and its 80% interval, from the evaluations (iteration, loss) so far.

    None if no evaluation is late enough, if the run is over, or if it is unlike the runs that the law is tested on.
    """
    known, tested = (LINE, TESTED_LINE) if isinstance(schedule, Trapezoid) else (COSINE, TESTED_COSINE)
    law, end = law or known, schedule.end
    first = max(tested.first * end, tested.first_iteration)
    seen = [(t, loss) for t, loss in curve if max(schedule.rise, _EARLIEST * end) <= t and loss > 0]
    if not seen or not first <= seen[-1][0] < end or not _is_tested(schedule, tested):
        return None
    seen = seen[:: -max(1, math.ceil(len(seen) / _MOST))][::-1]  # thinned from the end, which is kept
    slope = law.slope + law.slope_by_length * math.log(end / 2000)
    state = _State(
        (0.0, slope, law.drop),
        ((_ANY_LEVEL, 0.0, 0.0), (0.0, law.slope_spread**2, 0.0), (0.0, 0.0, law.drop_spread**2)),
    )
    last = None
    for t, loss in seen:
        x = progress(schedule, t)
        if last is not None:
            state = state.wandered(_wandering(law, last, x))
        state = state.corrected(_parts(law, schedule, t), math.log(loss), law.noise)
        last = x
    assert last is not None
    expected, variance = state.wandered(_wandering(law, last, 1.0)).seen(_parts(law, schedule, end))
    width = max(narrowest, width_at(schedule, last) * math.sqrt(variance + law.noise**2))
    band = Band(math.exp(expected), math.exp(expected - width), math.exp(expected + width))
    return band if _LOSSES[0] <= band.value <= _LOSSES[1] else None


def progress(schedule: Schedule, iteration: float) -> float:
    """x: the sum of the rates so far over that of the whole run."""
    return schedule.rates_until(iteration) / schedule.rates_until(schedule.end)


def width_at(schedule: Schedule, x: float) -> float:
    """Half of the interval in standard deviations, given the x of the last evaluation."""
    tested = TESTED_LINE if isinstance(schedule, Trapezoid) else TESTED_COSINE
    return max(tested.width, tested.width_early / x)


def _is_tested(schedule: Schedule, tested: Tested) -> bool:
    if isinstance(schedule, Trapezoid):
        shape, (low, high) = schedule.share, _SHARES
    else:
        shape, (low, high) = schedule.low, _LOWEST_RATES
    return tested.ends[0] <= schedule.end <= tested.ends[1] and low <= shape <= high


def _parts(law: Law, schedule: Schedule, iteration: float) -> tuple[float, float, float]:
    """What level, slope and drop are multiplied by."""
    x = progress(schedule, iteration)
    fallen = 1 - schedule.rate(iteration)
    weight = math.pow(2 * schedule.share, law.share_power) if isinstance(schedule, Trapezoid) else 1.0
    return 1.0, (math.pow(x, -law.power) - 1) / law.power, weight * fallen


def _wandering(law: Law, since: float, until: float) -> float:
    """The variance of the level's change from one x to the next."""
    power = law.wander_early
    return law.wander * law.wander * (math.pow(since, -power) - math.pow(until, -power)) / power
