"""Where the iterations of a run are on an axis of tokens or seconds, so that charts can share their zoom."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from nanopace.diagnosis.result import Diagnosis
from nanopace.views.page.charts import Places

CLOSE = 0.4  # of the distance to the next row: less than half, so that the nearest row stays the right one


def token_places(runs: Sequence[Diagnosis]) -> Places | None:
    """The mapping for tokens; None if runs have different tokens per iteration."""
    per_iteration = {run.throughput.tokens_per_iteration for run in runs}
    tokens = per_iteration.pop()
    return None if per_iteration or tokens is None else Places((0.0, 1000 * tokens), (0, 1000))


def clock_places(runs: Sequence[Diagnosis]) -> Places | None:
    """The mapping for the wall clock; None for several runs, because each has its own clock."""
    if len(runs) > 1:
        return None
    curves = runs[0].curves
    ends = zip(curves.row_seconds, curves.row_iteration, strict=True)
    points = _rising(
        (seconds, iteration) for seconds, iteration in ends if seconds is not None and math.isfinite(seconds)
    )
    kept = _bends(points)
    x = tuple(float(f"{seconds:.8g}") for seconds, _ in kept)  # more digits are useless in a page
    return Places(x, tuple(iteration for _, iteration in kept)) if len(kept) > 1 else None


def _rising(points: Iterable[tuple[float, int]]) -> list[tuple[float, int]]:
    kept: list[tuple[float, int]] = []
    for point in sorted(points):
        if not kept or (point[0] > kept[-1][0] and point[1] > kept[-1][1]):
            kept.append(point)
    return kept


def _bends(points: Sequence[tuple[float, int]]) -> list[tuple[float, int]]:
    """A subset of the points such that straight lines between them pass close to all others; each line is as long as
    possible."""
    if len(points) < 3:
        return list(points)
    kept, low, high = [points[0]], 0.0, math.inf  # slopes close enough to all points since the last one kept
    for before, here, after in zip(points, points[1:], [*points[2:], points[-1]], strict=False):
        slopes = _slopes(kept[-1], before, here, after)
        x, y = kept[-1]
        if not low <= (here[1] - y) / (here[0] - x) <= high:
            kept.append(before)
            low, high = 0.0, math.inf
            slopes = _slopes(before, before, here, after)
        low, high = max(low, slopes[0]), min(high, slopes[1])
    return [*kept, points[-1]]


def _slopes(
    start: tuple[float, int], before: tuple[float, int], here: tuple[float, int], after: tuple[float, int]
) -> tuple[float, float]:
    """The smallest and the largest slope of a line from `start` that passes close to `here` on both axes."""
    x, y = here[0] - start[0], here[1] - start[1]
    close_x = CLOSE * min(here[0] - before[0], after[0] - here[0] or math.inf)
    close_y = CLOSE * min(here[1] - before[1], after[1] - here[1] or math.inf)
    return max((y - close_y) / x, y / (x + close_x)), min((y + close_y) / x, y / (x - close_x))
