"""A learning rate that rises in the warm-up, stays, and falls linearly to the end of the run."""

from __future__ import annotations

from typing import NamedTuple

from nanopace.run import Run


class Trapezoid(NamedTuple):
    """The rate by iteration, relative to its maximum."""

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


def cools_down(run: Run) -> bool:
    """Whether the rate of this run falls only towards its end, so that its past does not show where it leads."""
    if run.value("recipe") is None:
        return run.cools_down
    left_out = str(run.value("without") or "").replace(" ", "").split(",")
    falls = run.value("decay_lr") is not False and run.number("cooldown") != 0
    return falls and run.value("recipe") == "fast" and "trapezoid" not in left_out


def trapezoid_of(run: Run) -> Trapezoid | None:
    """The schedule, if the log tells its end and where the rate starts to fall."""
    end, share = run.number("max_iters"), run.number("cooldown")
    if not cools_down(run) or not end or not share:
        return None
    rise = int(run.number("warmup_iters") or 0)
    return Trapezoid(int(end), rise, share) if rise < end * (1 - share) else None
