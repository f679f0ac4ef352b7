"""The schedule of the learning rate, from the settings in a log or from the rates that it prints."""

from __future__ import annotations

import math
from typing import NamedTuple

from nanopace.run import Run

_FALLEN = 0.11  # of the maximum: most trainers end at zero or a tenth
_OFF = 0.005  # of the maximum: printed rates have three digits or more


class Trapezoid(NamedTuple):
    """Rises in the warm-up, stays, and falls linearly to zero. The rate is relative to its maximum."""

    end: int  # the last iteration
    rise: int  # iterations of the warm-up
    share: float  # of all iterations: the last part, in which the rate falls

    def rate(self, iteration: float) -> float:
        if iteration < self.rise:
            return iteration / self.rise
        return max(0.0, min(1.0, (self.end - iteration) / (self.share * self.end)))

    def rates_until(self, iteration: float) -> float:
        """The sum of the rates after the warm-up, with half of the warm-up."""
        fallen = max(0.0, iteration - self.end * (1 - self.share))
        return iteration - self.rise / 2 - fallen * fallen / (2 * self.share * self.end)


class Cosine(NamedTuple):
    """Rises in the warm-up, then falls along half a cosine. The rate is relative to its maximum."""

    end: int  # where the fall ends
    rise: int
    low: float  # the rate there

    def rate(self, iteration: float) -> float:
        if iteration < self.rise:
            return iteration / self.rise
        return self.low + (1 - self.low) * (1 + math.cos(math.pi * self._done(iteration))) / 2

    def rates_until(self, iteration: float) -> float:
        """The sum of the rates after the warm-up, with half of the warm-up."""
        done = self._done(iteration)
        mean = self.low * done + (1 - self.low) * (done + math.sin(math.pi * done) / math.pi) / 2
        return self.rise / 2 + (self.end - self.rise) * mean

    def _done(self, iteration: float) -> float:
        return min(1.0, (iteration - self.rise) / (self.end - self.rise))


Schedule = Trapezoid | Cosine


def cools_down(run: Run) -> bool:
    """Whether the rate of this run falls only towards its end, so that its past does not show where it leads."""
    if run.value("recipe") is None:
        return run.cools_down
    left_out = str(run.value("without") or "").replace(" ", "").split(",")
    falls = run.value("decay_lr") is not False and run.number("cooldown") != 0
    return falls and run.value("recipe") == "fast" and "trapezoid" not in left_out


def schedule_of(run: Run) -> Schedule | None:
    """The schedule, if the log shows all of it."""
    return _trapezoid(run) if cools_down(run) else _cosine_of_knobs(run) or _cosine_of_rates(run)


def rate_left(run: Run, now: int, later: int) -> float:
    """What will be left of the present rate at a later iteration; 1.0 if the log shows no fall."""
    schedule = schedule_of(run)
    if schedule is not None:
        rate = schedule.rate(now)
        return schedule.rate(later) / rate if rate > 0 else 1.0
    highest = max((rate for _, rate in run.rates), default=0.0)
    if not highest:
        return 1.0
    rate = run.rates[-1][1] / highest
    fallen = (1 - rate) * (later / now) ** 2  # along a cosine; a line falls less in that time
    return max(0.0, 1 - fallen) / rate if rate > 0 else 0.0


def has_fallen(run: Run) -> bool:
    """Whether the printed rate is down at a tenth, so that the run is as good as over even if its end is unknown."""
    return bool(run.rates) and run.rates[-1][1] <= _FALLEN * max(rate for _, rate in run.rates)


def _trapezoid(run: Run) -> Trapezoid | None:
    end, share = run.number("max_iters"), run.number("cooldown")
    if not end or not share:
        return None
    rise = int(run.number("warmup_iters") or 0)
    return Trapezoid(int(end), rise, share) if rise < end * (1 - share) else None


def _cosine_of_knobs(run: Run) -> Cosine | None:
    """nanoGPT's, if its four settings are known."""
    names = ("lr_decay_iters", "warmup_iters", "learning_rate", "min_lr")
    end, rise, highest, lowest = (run.number(name) for name in names)
    if end is None or rise is None or not highest or lowest is None or run.value("decay_lr") is False:
        return None
    return Cosine(int(end), int(rise), lowest / highest) if rise < end and lowest <= highest else None


def _cosine_of_rates(run: Run) -> Cosine | None:
    """The cosine to the last iteration that goes through all printed rates."""
    end, highest = run.number("max_iters"), max((rate for _, rate in run.rates), default=0.0)
    if not end or not highest:
        return None
    rise = next(iteration for iteration, rate in run.rates if rate == highest)
    if not rise < run.rates[-1][0] <= end:
        return None
    points = [(Cosine(int(end), rise, 0.0).rate(t), rate / highest) for t, rate in run.rates if t >= rise]
    weight = sum((1 - cosine) ** 2 for cosine, _ in points)
    if not weight:
        return None
    low = sum((1 - cosine) * (rate - cosine) for cosine, rate in points) / weight
    off = max(abs(low + (1 - low) * cosine - rate) for cosine, rate in points)
    return Cosine(int(end), rise, max(0.0, low)) if off <= _OFF and -0.1 < low < 1 else None
