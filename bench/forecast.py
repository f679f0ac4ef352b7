"""How often the 80% interval of the loss forecast contains the true loss, on simulated power laws with noise.

python bench/forecast.py            # with logs as arguments, on their curves, too
"""

from __future__ import annotations

import random
import re
import sys
from pathlib import Path

from nanopace.diagnosis.loss.trend import fit_trend

TRIALS = 400


def simulated(points: int, factor: float) -> float:
    """The share of laws a + b t^-c whose evaluation at `factor` times the iterations was inside the interval."""
    rng = random.Random(points)
    held = 0
    for _ in range(TRIALS):
        floor, power, noise = rng.uniform(1.5, 3.2), rng.uniform(0.15, 0.8), rng.choice([0.003, 0.01, 0.03])
        scale = rng.uniform(0.5, 5) * 500**power
        iterations = [500 * k for k in range(1, points + 1)]
        trend = fit_trend(iterations, [floor + scale * t**-power + rng.gauss(0, noise) for t in iterations])
        assert trend is not None
        goal = iterations[-1] * factor
        band = trend.at(goal)
        held += band.low <= floor + scale * goal**-power + rng.gauss(0, noise) <= band.high
    return held / TRIALS


def looked_up(log: Path) -> tuple[int, int]:
    """Forecast 1.5 times ahead from every evaluation of a log: how many were inside the interval, and of how many."""
    found = re.findall(r"^step (\d+): .* val loss ([\d.]+)", log.read_text(errors="replace"), re.MULTILINE)
    curve = {int(iteration): float(val) for iteration, val in found if int(iteration) > 0}
    held = asked = 0
    for end in curve:
        past = [iteration for iteration in curve if iteration <= end]
        goal = round(end * 1.5 / past[0]) * past[0]
        trend = fit_trend(past, [curve[iteration] for iteration in past])
        if trend is not None and goal in curve:
            band = trend.at(goal)
            asked += 1
            held += band.low <= curve[goal] <= band.high
    return held, asked


def main() -> None:
    for points, factor in ((9, 1.5), (20, 1.5), (40, 1.5), (20, 2.0)):
        share = simulated(points, factor)
        print(f"{points:3} evaluations, {factor}x: the loss was inside the interval in {share:.1%} of {TRIALS} runs")
    totals = [0, 0]
    for name in sys.argv[1:]:
        held, asked = looked_up(Path(name))
        totals = [totals[0] + held, totals[1] + asked]
        print(f"{Path(name).name}: {held} of {asked}")
    if sys.argv[1:]:
        print(f"total: {totals[0]} of {totals[1]}")


if __name__ == "__main__":
    main()
