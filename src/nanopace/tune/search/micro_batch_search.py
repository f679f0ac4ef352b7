"""Which micro-batch to try next, given what was tried, and which one to take. Nothing here runs anything.

A step trains on the same sequences whatever the micro-batch, so the candidates are the divisors of their number. A
micro-batch of B takes t = a + b B: a is its fixed cost, b the cost of each sequence. So the speed rises with B, ever
less, until something else gets in the way: caches, recomputation, the end of the memory. The speed has one maximum, and
we look for its knee: the smallest micro-batch within 2% of the best. Where the measurements lie on such a line, the
line predicts the knee, and one trial there confirms it: about four trials in all, none of which is trusted alone. Where
the knee turns out slower than predicted, the line from there to the best predicts another. Where the measurements lie
on no line, maximum and knee are found by halving.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from nanopace.tune.divisors import divisors

WITHIN = 0.015  # of the best speed, as measured: 2% is what we promise, and trials are some tenths of a percent off
_MOST_WITHIN = 0.05  # however much the steps waver
_STRAIGHT = 0.015  # off the line, and still on it; more where the steps waver
_TO_SIGMA = 1.4826  # of a median absolute deviation


@dataclass(frozen=True, slots=True)
class Probe:
    """One micro-batch that was tried; no steps: memory was full."""

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
        """The standard error of the median, as a share of it, from the spread of the steps."""
        if len(self.step_ms) < 2:
            return 0.0
        middle = self.ms
        deviation = _TO_SIGMA * median(abs(each - middle) for each in self.step_ms)
        return 1.2533 * deviation / math.sqrt(len(self.step_ms)) / middle


@dataclass(frozen=True, slots=True)
class Cost:
    """A micro-batch of B sequences takes fixed_ms + marginal_ms * B; the optimizer's share is in the second."""

    fixed_ms: float
    marginal_ms: float

    def each_ms(self, count: int) -> float:
        """What each of `count` sequences takes. Never negative, whatever the fit says."""
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
    """What to try next: the given one, the largest, the middle; then the knee that their line predicts. Where they are
    on none, halve towards the maximum and towards its knee.

    None: the search is over. Nothing is tried that is as large as what did not fit.
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
        above = [each for each in line if each > max(good)]  # the prediction was wrong: halve up to the wall
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
    """The smallest that is as fast as the best: within 2%, or within the noise of the steps; by the line through all,
    where a trial confirms it. None where nothing fits."""
    good = {each.sequences: each for each in tried.values() if each.fits}
    if not good:
        return None
    knee = predicted_knee(sorted(good), good)
    return knee if knee is not None and _as_fast(good[knee], _best(good)) else min(_fast(good))


def alike(a: Probe, b: Probe) -> bool:
    return a.fits and b.fits and abs(a.ms / b.ms - 1) <= _STRAIGHT


def predicted_knee(line: Sequence[int], good: Mapping[int, Probe]) -> int | None:
    """The knee among `line`, by the line through the measurements; None where they are on none. The largest may be
    slower than the line says, because something is in their way: then nothing as large is considered."""
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
    """The knee, unless the next larger one that was tried is slower than the next smaller: then the line ends between
    them, and a trial in the middle says more."""
    low = max((each for each in good if each < knee), default=0)
    high = min((each for each in good if each > knee), default=0)
    ends = low and high and good[high].ms > good[low].ms
    return _between(line, low, high) if ends else knee


def _farther_up(line: Sequence[int], good: Mapping[int, Probe]) -> int | None:
    """The knee by the line from the largest slow one to the best; None where that is not before the first fast one."""
    best, fast = _best(good), min(_fast(good))
    slow = max((each for each in good if each < fast), default=0)
    through = cost({each: good[each] for each in (slow, best.sequences) if each in good}, 1)
    if through is None:
        return None
    enough = through.each_ms(best.sequences) / (1 - WITHIN)
    return next((each for each in line if slow < each < fast and through.each_ms(each) <= enough), None)


def _explains(through: Cost, within: Sequence[int], good: Mapping[int, Probe]) -> bool:
    """All of `within` are on the line; the others are slower than it says, and than the fastest on it."""
    off = {each: 1 - through.each_ms(each) / probe.ms for each, probe in good.items()}
    fastest = min(good[each].ms for each in within)
    return all(abs(off[each]) <= max(_STRAIGHT, good[each].error) for each in within) and all(
        off[each] > 0 and good[each].ms > fastest for each in good if each not in within
    )


def cost(tried: Mapping[int, Probe], sequences: int) -> Cost | None:
    """The line through what was measured, by least squares of relative errors; None with fewer than two points."""
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
    """Those as fast as the best, in their order."""
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
    """The middle of the widest gap in which maximum or knee may be: between the best and a neighbour that is as fast,
    on either side of the maximum; beyond the last fast one; before the first."""
    fast, line = _fast(good), [each for each in line if each not in good]
    beyond = min((each for each in good if each > fast[-1]), default=fast[-1])
    before = max((each for each in good if each < fast[0]), default=0)
    best = _best(good).sequences
    gaps = [(before, fast[0]), *(pair for pair in pairwise(fast) if best in pair)]
    if fast[-1] == best:
        gaps.append((best, beyond))
    return _between(line, *max(gaps, key=lambda gap: sum(gap[0] < each < gap[1] for each in line)))
