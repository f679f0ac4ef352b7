"""Two runs with a known truth, and what is true about both together."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median

from .check import open_step
from .truth import Truth, val_of


@dataclass(frozen=True)
class Pair:
    a: Truth
    b: Truth

    def named(self, name: str) -> Truth:
        return self.a if name in ("a.log", "A") else self.b

    def other(self, truth: Truth) -> Truth:
        return self.b if truth is self.a else self.a

    @property
    def noise(self) -> float:
        """Three standard errors of the difference of two evaluations."""
        return 3 * math.hypot(self.a.plan.losses.noise, self.b.plan.losses.noise) + 0.003

    @property
    def same_data_known(self) -> bool:
        return all("dataset = " in truth.text for truth in (self.a, self.b))

    @property
    def late(self) -> list[Truth]:
        """The runs whose log does not start with the run: their earlier time is unknown."""
        return [truth for truth in (self.a, self.b) if not truth.begins]


def speed_of(truth: Truth) -> tuple[float, float]:
    """The range of tokens per second that "normal" allows."""
    ordered = sorted(truth.levels)
    own = median(row.step_ms for row in truth.plain or truth.rows)  # noise smears two levels into one another
    low, high = max(own, ordered[-1 - len(ordered) // 3]), min(own, ordered[len(ordered) // 3])
    share = open_step(truth) + (0.02 if truth.plain else 0.15)  # without a plain row an estimate, and said to be one
    return truth.plan.shape.tokens * 1000 / low * (1 - share), truth.plan.shape.tokens * 1000 / high * (1 + share)


def best_until(truth: Truth, seconds: float = math.inf, iteration: float = math.inf) -> float:
    """The lowest validation loss until then: as printed, or what an evaluation at that moment would have given."""
    reached = [val for at, at_s, val in truth.moments if at_s <= seconds and at <= iteration]
    before = [(at_s, at) for at, at_s, _ in truth.moments if at_s <= seconds]
    after = [(at_s, at) for at, at_s, _ in truth.moments if at_s > seconds]
    if before and after and math.isfinite(seconds):
        (from_s, first), (to_s, last) = before[-1], after[0]
        at = first + (last - first) * (seconds - from_s) / (to_s - from_s)
        reached.append(val_of(truth.plan, max(1, round(at))))
    return min(reached, default=math.inf)
