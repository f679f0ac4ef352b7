"""Which micro-batch to try next, given what was tried, and which one to choose. Nothing here runs anything.

A step trains on the same sequences whatever the micro-batch, so the candidates are the divisors of their number. A
micro-batch of B takes t = a + b B: a is its fixed cost, b the cost per sequence. So the speed rises with B, less and
less, until something else interferes: caches, recomputation, the end of the memory. The speed has one maximum, and we
look for its knee: the smallest micro-batch within 2% of the best. If the measurements are on such a line, it predicts
the knee, and one trial there confirms it: about four trials in total, none of which is trusted alone. If the knee turns
out slower than predicted, the line from there to the best predicts another. If the measurements are not on a line,
maximum and knee are found by bisection.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from nanopace.tune.divisors import divisors

WITHIN = 0.015  # of the best measured speed: we promise 2%, and trials are off by a few tenths of a percent
_MOST_WITHIN = 0.05  # however noisy the steps are
_STRAIGHT = 0.015  # largest distance from the line; more if the steps are noisy
_TO_SIGMA = 1.4826  # from a median absolute deviation


@dataclass(frozen=True, slots=True)
class Probe:
    """A micro-batch that was tried; without steps if memory was full."""

    sequences: int
    step_ms: tuple[float, ...]

    @property
    def fits(self) -> bool:
        return bool(self.step_ms)

    @property
    def ms(self) -> float:
        return median(self.step_ms)

    @property
    def error(self) -> float:
        """The standard error of the median, as a share of it, from the scatter of the steps."""
        if len(self.step_ms) < 2:
            return 0.0
        middle = self.ms
        deviation = _TO_SIGMA * median(abs(each - middle) for each in self.step_ms)
        return 1.2533 * deviation / math.sqrt(len(self.step_ms)) / middle


@dataclass(frozen=True, slots=True)
class Cost:
    """A micro-batch of B sequences takes fixed_ms + marginal_ms * B; the latter includes the optimizer's share."""

    fixed_ms: float
    marginal_ms: float

    def each_ms(self, count: int) -> float:
        """The time of each of `count` sequences. Never negative, whatever the fit."""
        return max(0.0, self.marginal_ms) + max(0.0, self.fixed_ms) / count


def candidates(sequences: int, fits: Callable[[int], bool]) -> list[int]:
    """What can be tried, up to where memory is predicted to be full."""
    found: list[int] = []
    for each in divisors(sequences):
        if not fits(each):
            break
        found.append(each)
    return found


def next_probe(allowed: Sequence[int], given: int, tried: Mapping[int, Probe]) -> int | None:
    """What to try next: the given one, the largest, the middle; then the knee that their line predicts. If they are not
    on a line, bisect towards the maximum and its knee.

    None: the search is over. Never try anything as large as what did not fit.
    """
    if given not in tried:
        return given
    wall = min((each.sequences for each in tried.values() if not each.fits), default=math.inf)
    line = [each for each in sorted({*allowed, given}) if each < wall]
    good = {each: tried[each] for each in line if each in tried}
    if not line:
        return None
    if line[-1] not in good:
        if wall == math.inf or not good:
            return line[-1] if wall == math.inf else line[len(line) // 2]
        above = [each for each in line if each > max(good)]  # the prediction was wrong: bisect up to the limit
        return above[len(above) // 2]
    if len(good) < 3 and (third := _middle_of_widest(line, good)) is not None:
        return third
    knee = predicted_knee(line, good)
    if knee is None:
        return _halving(line, good)
    if knee not in good:
        return _on_the_way(knee, line, good)
    return None if _as_fast(good[knee], _best(good)) else _farther_up(line, good)


def pick(tried: Mapping[int, Probe]) -> int | None:
    """The smallest that is as fast as the best: within 2%, or within the noise of the steps; from the line through all,
    if a trial confirms it. None if nothing fits."""
    good = {each.sequences: each for each in tried.values() if each.fits}
    if not good:
        return None
    knee = predicted_knee(sorted(good), good)
    return knee if knee is not None and _as_fast(good[knee], _best(good)) else min(_fast(good))


def alike(a: Probe, b: Probe) -> bool:
    return a.fits and b.fits and abs(a.ms / b.ms - 1) <= _STRAIGHT


def predicted_knee(line: Sequence[int], good: Mapping[int, Probe]) -> int | None:
    """The knee among `line`, from the line through the measurements; None if they are not on one. The largest may be
    slower than the line predicts, because something interferes: then nothing that large is considered."""
    count = len(good)
    while count > 2:
        within = sorted(good)[:count]
        beyond = min((each for each in good if each > within[-1]), default=math.inf)
        through = cost({each: good[each] for each in within}, 1)
        if through is not None and _explains(through, within, good):
            allowed = [each for each in line if each < beyond]
            best = min(map(through.each_ms, allowed))
            return next(each for each in allowed if best >= through.each_ms(each) * (1 - WITHIN))
        count -= 1
    return None


def _on_the_way(knee: int, line: Sequence[int], good: Mapping[int, Probe]) -> int | None:
    """The knee, unless the next larger one tried is slower than the next smaller: then the line ends between them, and
    a trial in the middle tells more."""
    low = max((each for each in good if each < knee), default=0)
    high = min((each for each in good if each > knee), default=0)
    ends = low and high and good[high].ms > good[low].ms
    return _between(line, low, high) if ends else knee


def _farther_up(line: Sequence[int], good: Mapping[int, Probe]) -> int | None:
    """The knee from the line between the largest slow one and the best; None if it is not before the first fast one."""
    best, fast = _best(good), min(_fast(good))
    slow = max((each for each in good if each < fast), default=0)
    through = cost({each: good[each] for each in (slow, best.sequences) if each in good}, 1)
    if through is None:
        return None
    enough = through.each_ms(best.sequences) / (1 - WITHIN)
    return next((each for each in line if slow < each < fast and through.each_ms(each) <= enough), None)


def _explains(through: Cost, within: Sequence[int], good: Mapping[int, Probe]) -> bool:
    """Whether all of `within` are on the line, and the others are slower than it and than the fastest on it."""
    off = {each: 1 - through.each_ms(each) / probe.ms for each, probe in good.items()}
    fastest = min(good[each].ms for each in within)
    return all(abs(off[each]) <= max(_STRAIGHT, good[each].error) for each in within) and all(
        off[each] > 0 and good[each].ms > fastest for each in good if each not in within
    )


def cost(tried: Mapping[int, Probe], sequences: int) -> Cost | None:
    """The line through the measurements, by least squares of relative errors; None with fewer than two points."""
    points = [(each.sequences, each.ms * each.sequences / sequences) for each in tried.values() if each.fits]
    if len(points) < 2:
        return None
    weights = [1 / time**2 for _, time in points]
    total = sum(weights)
    size = sum(weight * count for weight, (count, _) in zip(weights, points, strict=True)) / total
    time = sum(weight * each for weight, (_, each) in zip(weights, points, strict=True)) / total
    spread = sum(weight * (count - size) ** 2 for weight, (count, _) in zip(weights, points, strict=True))
    slope = (
        sum(weight * (count - size) * (each - time) for weight, (count, each) in zip(weights, points, strict=True))
        / spread
    )
    return Cost(time - slope * size, slope)


def _best(good: Mapping[int, Probe]) -> Probe:
    return min(good.values(), key=lambda probe: (probe.ms, probe.sequences))


def _fast(good: Mapping[int, Probe]) -> list[int]:
    """Those as fast as the best, in order."""
    best = _best(good)
    return sorted(each for each in good if _as_fast(good[each], best))


def _as_fast(probe: Probe, best: Probe) -> bool:
    noise = 2 * math.hypot(probe.error, best.error)
    return best.ms >= probe.ms * (1 - min(_MOST_WITHIN, max(WITHIN, noise)))


def _between(line: Sequence[int], low: int, high: int) -> int | None:
    """The middle one of those strictly between."""
    inside = [each for each in line if low < each < high]
    return inside[len(inside) // 2] if inside else None


def _middle_of_widest(line: Sequence[int], good: Mapping[int, Probe]) -> int | None:
    edges = [0, *sorted(good)]
    gaps = [(sum(low < each < high for each in line), low, high) for low, high in pairwise(edges)]
    _, low, high = max(gaps)
    return _between(line, low, high)


def _halving(line: Sequence[int], good: Mapping[int, Probe]) -> int | None:
    """The middle of the widest gap that may contain the maximum or the knee: between the best and an equally fast
    neighbour, on either side of the maximum; after the last fast one; before the first."""
    fast, line = _fast(good), [each for each in line if each not in good]
    beyond = min((each for each in good if each > fast[-1]), default=fast[-1])
    before = max((each for each in good if each < fast[0]), default=0)
    best = _best(good).sequences
    gaps = [(before, fast[0]), *(pair for pair in pairwise(fast) if best in pair)]
    if fast[-1] == best:
        gaps.append((best, beyond))
    return _between(line, *max(gaps, key=lambda gap: sum(gap[0] < each < gap[1] for each in line)))
