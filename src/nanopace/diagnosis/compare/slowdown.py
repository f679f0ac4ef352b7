"""How much longer a step of one run takes than a step of another, and how certain that is.

Rows of the same iterations are compared, so that whatever the runs have in common cancels out: a card that warms up, a
batch that grows. The differences are averaged over twenty stretches, and the scatter of these is the noise, whatever
its cause. If rows resemble their neighbours, so do stretches, and they then count as fewer (decision 41).
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from nanopace.diagnosis.time.baseline_rows import LEAST_MS
from nanopace.diagnosis.time.levels import HALF_WINDOW, MAD, drift, level_starts
from nanopace.diagnosis.time.rows import LEAST_NOISE, OUTSIDE_NOISE, SLOW, Pace
from nanopace.medians import median, rolling_median
from nanopace.run import Run

LEAST_ROWS = 30  # of each run: with fewer, random scatter and similar neighbours look the same
STRETCHES = 20  # with more, each is shorter and more like its neighbours; with ten, the intervals are a seventh wider
LEAST_EFFECTIVE = 3.0  # stretches, however similar neighbours are: with fewer, the interval is unbounded
MOST_ALIKE = 0.95
FARTHEST = 30.0  # of a logarithm
SAME = 1e-9  # of a time: closer values were printed alike

# Half the width of a 99% interval in standard errors, by degrees of freedom (Student's t), starting at 2.
T99 = (9.92, 5.84, 4.60, 4.03, 3.71, 3.50, 3.36, 3.25, 3.17, 3.11, 3.05, 3.01, 2.98, 2.95, 2.92, 2.90, 2.88, 2.86)

# Two runs of the same code on the same machine differ by more than their rows show: by at most this much (a standard
# deviation, as a fraction) in 49 of 68 sets of real runs (decision 41).
RUN_TO_RUN = 0.001
NORMAL99 = 2.58
BETWEEN_RUNS = NORMAL99 * math.sqrt(2) * RUN_TO_RUN  # half an interval with infinitely many rows

# A standard error is itself uncertain, by a sixth or more: this many times the rows are enough in nine of ten cases
# (bench/gate.py).
ROWS_TO_SPARE = 1.6
AT_LEAST = 1.5  # times the existing rows, which were too few


@dataclass(frozen=True, slots=True)
class Slowdown:
    """The new run compared with the base: the time per step, or per token if the steps differ in tokens."""

    change_share: float  # time of the new run over that of the base, minus 1
    low_share: float  # its 99% interval
    high_share: float
    error_share: float  # its standard error, from the scatter of the rows alone
    rounding_share: float  # how far off it may be because the logs print few digits
    lowest_share: float  # the change in the stretch where it is lowest
    highest_share: float
    steady: bool  # no levels and no drift
    base_ms: float  # median step of the base
    new_ms: float  # the same for the new run, derived from the change
    new_rows: int  # that were compared
    base_rows: int
    effective_stretches: float  # of 20: fewer if neighbours resemble each other

    @property
    def wanders(self) -> bool:
        """Whether neighbouring stretches are so similar that twenty tell no more than three."""
        return self.effective_stretches <= LEAST_EFFECTIVE


class Sample(NamedTuple):
    """The step times in one run's plain rows, without slow ones."""

    place: Sequence[float]  # iterations since the first row
    log_ms: Sequence[float]
    weight: Sequence[int]
    rounding: float  # how far off their mean may be because the log prints few digits, as a fraction

    @property
    def rows(self) -> int:
        return sum(self.weight)

    def until(self, place: float) -> Sample:
        end = bisect_right(self.place, place)
        return Sample(self.place[:end], self.log_ms[:end], self.weight[:end], self.rounding)

    def scaled(self) -> Sample:
        """Place rows by their share of the run, for runs that share no iterations."""
        whole = self.place[-1] or 1.0
        return Sample([each / whole for each in self.place], self.log_ms, self.weight, self.rounding)


def sample(run: Run, pace: Pace) -> Sample:
    """The rows to compare; none if no row is a plain step."""
    rows, special = run.rows, pace.marks.rows
    plain = range(len(rows)) if pace.basis == "rows" else ()
    kept = [index for index in plain if index not in special and pace.kind[index] != SLOW]
    first = rows.iteration[0] if len(rows) else 0
    return Sample(
        place=[float(rows.last_iteration[index] - first) for index in kept],
        log_ms=[math.log(max(rows.ms[index], LEAST_MS)) for index in kept],
        weight=[rows.count[index] for index in kept],
        rounding=_rounding([rows.ms[index] for index in kept]) if kept else 0.0,
    )


def slowdown(new: Sample, base: Sample, tokens_ratio: float = 1.0) -> Slowdown | None:
    """Compare the new run with the base; None if fewer than LEAST_ROWS rows are comparable. `tokens_ratio`: tokens per
    iteration of the new run over those of the base."""
    if min(len(new.place), len(base.place)) < LEAST_ROWS:
        return None
    new, base = _common_span(new, base)
    differences, weights = _differences(new, base)
    if len(differences) < LEAST_ROWS:
        return None
    differences, levels = _without_outliers(differences)
    means, known = _means(differences, weights), _means(levels, weights)
    if len(means) < STRETCHES / 2:  # a very long log in which one folded row stands for most
        return None
    error, effective = _standard_error([mean - level for mean, level in zip(means, known, strict=True)])
    step, per_token = _mean(means), math.log(tokens_ratio)
    change, level = step - per_token, _mean(known)
    rounding = new.rounding + base.rounding
    half = math.hypot(T99[int(effective) - 3] * error, BETWEEN_RUNS) + rounding
    base_ms = math.exp(median(base.log_ms))
    return Slowdown(
        change_share=_share(change),
        low_share=_share(change + min(known) - level - half),  # includes all levels, if there are several
        high_share=_share(change + max(known) - level + half),
        error_share=error,
        rounding_share=rounding,
        lowest_share=_share(min(means) - per_token),
        highest_share=_share(max(means) - per_token),
        steady=max(known) == min(known),
        base_ms=base_ms,
        new_ms=base_ms * (1 + _share(step)),
        new_rows=new.rows,
        base_rows=base.rows,
        effective_stretches=effective,
    )


def rows_enough(found: Slowdown, half: float) -> int | None:
    """How many rows of each run make the interval at most `half` wide to either side (in logarithms). None if more rows
    do not help."""
    room = (half - found.rounding_share) ** 2 - BETWEEN_RUNS**2
    if half <= found.rounding_share + BETWEEN_RUNS or not found.steady:
        return None
    times = max(AT_LEAST, ROWS_TO_SPARE * (T99[-1] * found.error_share) ** 2 / room)
    return math.ceil(times * min(found.new_rows, found.base_rows))


def _common_span(new: Sample, base: Sample) -> tuple[Sample, Sample]:
    """As much of the longer run as the shorter one covers; or all of both, if that leaves too few rows."""
    span = min(new.place[-1], base.place[-1])
    both = new.until(span), base.until(span)
    return both if min(len(each.place) for each in both) >= LEAST_ROWS else (new.scaled(), base.scaled())


def _differences(new: Sample, base: Sample) -> tuple[list[float], list[int]]:
    """The log times of the new run minus those of the base, at the rows of the run with fewer. Each is compared with
    the mean of the other's nearest rows, within the usual distance between rows."""
    few, many = (new, base) if len(new.place) <= len(base.place) else (base, new)
    apart = median(after - before for before, after in pairwise(few.place))
    found, weights = [], []
    end = 0
    for place, following, log_ms, weight in zip(
        few.place, [*few.place[1:], math.inf], few.log_ms, few.weight, strict=True
    ):
        begin = max(end, bisect_right(many.place, place - apart))
        end = min(bisect_right(many.place, (place + following) / 2), bisect_left(many.place, place + apart))
        if begin < end:
            found.append(log_ms - _mean(many.log_ms[begin:end]))
            weights.append(weight)
    return (found if few is new else [-each for each in found]), weights


def _without_outliers(differences: Sequence[float]) -> tuple[list[float], list[float]]:
    """The differences, with outliers moved to the edge of the noise; and the part of each that comes from levels or
    drift, which is known and so not noise."""
    starts = level_starts(differences)
    around, levels = [], []
    for begin, end in pairwise([*starts, len(differences)]):
        part = differences[begin:end]
        around += rolling_median(part, HALF_WINDOW)  # wide, because outliers come in clusters
        levels += [median(part)] * len(part)
    if len(starts) == 1:
        creep = math.log1p(drift(differences) or 0.0) / len(differences)
        levels = [creep * position for position in range(len(differences))]
    off = [each - near for each, near in zip(differences, around, strict=True)]
    edge = OUTSIDE_NOISE * max(LEAST_NOISE, median(map(abs, off)) / MAD)
    return [near + min(edge, max(-edge, each)) for near, each in zip(around, off, strict=True)], levels


def _means(values: Sequence[float], weights: Sequence[int]) -> list[float]:
    """The mean of each stretch that has a value; a folded row may be longer than a stretch."""
    total, before = sum(weights), 0
    sums, amounts = [0.0] * STRETCHES, [0] * STRETCHES
    for value, weight in zip(values, weights, strict=True):
        at = (2 * before + weight) * STRETCHES // (2 * total)  # by its middle
        sums[at] += weight * value
        amounts[at] += weight
        before += weight
    return [each / amount for each, amount in zip(sums, amounts, strict=True) if amount]


def _standard_error(values: Sequence[float]) -> tuple[float, float]:
    """The standard error of the mean of a series, and how many independent values it is worth: fewer if neighbours
    resemble each other, as in a first-order autoregression (with Kendall's correction of the correlation)."""
    count, mean = len(values), _mean(values)
    off = [value - mean for value in values]
    squares = math.fsum(each**2 for each in off)
    alike = math.fsum(a * b for a, b in pairwise(off)) / squares if squares else 0.0
    alike = min(MOST_ALIKE, max(0.0, alike + (1 + 3 * alike) / count))
    effective = min(float(count), max(LEAST_EFFECTIVE, count * (1 - alike) / (1 + alike)))
    return math.sqrt(squares / (count - 1) / effective), effective


def _rounding(times: Sequence[float]) -> float:
    """How far off the mean of printed times may be, as a fraction: if they scatter by less than their last digit, all
    are rounded to the same side. That digit is at most the smallest distance between two times."""
    middle = median(times)
    if middle <= LEAST_MS:
        return 0.0
    parts = sorted(time / middle for time in times)
    apart = (after - before for before, after in pairwise(parts))
    digit = min((each for each in apart if each > SAME), default=_last_digit(middle) / middle)
    mean = _mean(parts)
    scatter = math.sqrt(max(0.0, math.fsum((each - mean) ** 2 for each in parts) / len(parts) - digit**2 / 12))
    return digit / 2 * math.exp(-2 * math.pi**2 * min(scatter / digit, 4.0) ** 2)


def _last_digit(time: float) -> float:
    """The unit of the last decimal place of a time that all rows share; at most a millisecond."""
    return float(10.0 ** -len(f"{time:.6f}".rstrip("0").partition(".")[2]))


def _share(logarithm: float) -> float:
    """A ratio minus 1. Differences beyond what any clock can measure are clipped."""
    return math.expm1(min(FARTHEST, max(-FARTHEST, logarithm)))


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
