"""Which rows are normal and which are slow, given the step time around each row.

The baseline is a rolling median within stretches of one level, so that neither a spike, nor a drift, nor a card that
suddenly slows down distorts it. Rows known to contain more than a step are never part of it.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections.abc import Container, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import Literal, NamedTuple

from nanopace.diagnosis.result import Level, Step
from nanopace.diagnosis.time.baseline_rows import LEAST_MS, SLOW_RATIO, baseline_rows, find_typical_rows
from nanopace.diagnosis.time.levels import (
    LEAST_ROWS,
    MAD,
    MEDIAN_ERROR,
    MOST_LOG,
    baseline,
    drift,
    fifths,
    level_starts,
    trend,
)
from nanopace.medians import median, typical, weighted_median, weighted_quantiles
from nanopace.run import Rows, Run
from nanopace.sources.infer.cover import since_row_before

NORMAL, UNEVEN, SLOW, MARKED = range(4)  # MARKED: contains more than a step, but is not slow

OUTSIDE_NOISE = 3.5  # Iglewicz and Hoaglin's bound for 0.6745 (x - median) / MAD
CLEARLY_SLOW = 4.5  # the same for slow rows: in some hundred rows, one exceeds 3.5 by chance
MOST_UNEVEN = 2.0  # times the baseline: an uneven row takes a little longer, whatever the noise
LEAST_NOISE = 0.005  # a smaller MAD is an artefact of rounding or of very few rows
ROUNDED_CLOCK = 0.3  # of a clock's rounding unit: the median error of the difference of two times
ROUNDING = 1e-9  # of a row's time: the error of taking a logarithm and its inverse
STEADY_SHARE = 0.02  # the first and the last fifth of a steady run differ by at most this
STEADY_ERROR = 0.01  # with a larger error, a change of several per cent may go unnoticed
CHANGED_SHARE = 0.05  # they differ by at least this if the pace has changed
LEAST_OF_FIFTHS = 15  # plain rows: with fewer, a fifth has under three rows and one slow row distorts its median

ENOUGH_COVERED = 0.2  # of the usual iterations: rows that cover fewer say little about the pace
ENOUGH_SINGLE = 30  # rows that are not folded are enough to estimate the noise

FORWARD_SHARE = 1 / 3  # of a training micro-step: the backward pass costs twice the forward pass

StepBasis = Literal["rows", "none"]


class Marks(NamedTuple):
    """Rows (by index) whose time contains more than a step."""

    evaluation: frozenset[int]
    checkpoint: frozenset[int]
    first: frozenset[int]  # of a process

    @property
    def rows(self) -> frozenset[int]:
        return self.evaluation | self.checkpoint | self.first


class Pace(NamedTuple):
    """The step time around each row, and the kind of each row."""

    step: Step
    baseline_ms: array[float]
    kind: bytearray
    marks: Marks
    basis: StepBasis  # "none": no row is a plain step, so the step time is unknown
    delays: Mapping[int, float] = MappingProxyType({})  # ms of a recurring stall in rows with an evaluation, by index
    shifts: Mapping[int, float] = MappingProxyType({})  # ms between two levels, by index of a row that lies between
    covered: Sequence[int] = ()  # how many iterations each row's time is the mean of; () means one each

    @property
    def step_ms(self) -> float:
        """The time of a normal step."""
        return self.step.median_ms or 0.0

    @property
    def spread(self) -> float:
        """The scatter of normal steps, as a fraction."""
        return self.step.spread or 0.0

    @property
    def plain(self) -> list[int]:
        """The rows that are plain steps, without slow ones."""
        return [index for index, kind in enumerate(self.kind) if kind in (NORMAL, UNEVEN)]

    def covers(self, index: int) -> int:
        """The number of iterations that one row's time is the mean of."""
        return self.covered[index] if self.covered else 1

    def excess_ms(self, rows: Rows, index: int) -> float:
        """The time of a row beyond its steps and a recurring stall; never negative."""
        excess = rows.sum_ms[index] - rows.count[index] * self.baseline_ms[index]
        return self._beyond_delay(index, excess, rows.sum_ms[index])

    def typical_excess_ms(self, rows: Rows, index: int) -> tuple[float, int]:
        """The excess of one of the rows that this one stands for, and their number."""
        excess = rows.ms[index] - self.baseline_ms[index]
        return self._beyond_delay(index, excess, rows.ms[index]), rows.count[index]

    def _beyond_delay(self, index: int, excess: float, whole: float) -> float:
        covers = self.covers(index)
        left = covers * excess - self.delays.get(index, 0.0)
        return left if left > ROUNDING * covers * whole else 0.0


def _unknown_ms(run: Run) -> float:
    """How far apart the rows of equal steps may seem to be, per step, because the clock shows whole seconds."""
    whole_seconds = any(caveat.code == "whole_seconds" for caveat in run.caveats)
    return 1000 / run.rows_cover if whole_seconds else 0.0


def find_pace(run: Run) -> Pace:
    """Separate normal rows from slow ones."""
    rows, marks = run.rows, _marks(run)
    special = marks.rows
    plain = [index for index in range(len(rows)) if index not in special]
    if not plain:
        return _pace_without_plain_rows(run, marks)

    logs = [math.log(max(rows.ms[index], LEAST_MS)) for index in plain]
    typical_rows = find_typical_rows(rows, special)
    covered = _covered(run, marks)
    long = _long_rows(run, plain, covered)
    kept = baseline_rows(logs, plain, typical_rows)  # positions in `plain`
    kept = [position for position in kept if plain[position] in long] or kept
    starts = level_starts([logs[position] for position in kept])
    around = _baseline_around(rows, plain, logs, kept, starts)
    for index, typical_row in typical_rows.items():
        around[index] = around[typical_row]
    usual_ms = max(LEAST_MS, median(rows.ms[plain[position]] for position in kept))
    rounded = min(1.0, ROUNDED_CLOCK * run.clock_ms / (run.rows_cover * usual_ms))
    kind, noise = _classify(rows, plain, logs, kept, special, around, rounded)

    normal = [index for index in plain if kind[index] != SLOW]
    steps = [log for index, log in zip(plain, logs, strict=True) if kind[index] != SLOW and index in long]
    times = [rows.ms[index] for index in normal]
    weights = [rows.count[index] * (covered[index] if covered else 1) for index in normal]
    # For a folded log, the typical rows; otherwise all, including slow ones, which may all be at the end.
    along = kept if typical_rows else [position for position, index in enumerate(plain) if index in long]
    counts = [rows.count[plain[position]] for position in along]
    enough = sum(counts) >= LEAST_OF_FIFTHS
    ends_ms = fifths([rows.ms[plain[position]] for position in along], counts) if enough else None
    low_ms, high_ms = weighted_quantiles(times, weights, (0.1, 0.9))
    scatters = len(starts) > 1 or high_ms - low_ms >= _unknown_ms(run)
    step = Step(
        median_ms=weighted_median(times, weights),
        spread=noise,
        normal_rows=sum(rows.count[index] for index in normal),
        uneven_rows=sum(rows.count[index] for index in normal if kind[index] == UNEVEN),
        levels=_levels(rows, normal, weights, [plain[kept[start]] for start in starts]),
        drift_share=drift(steps) if len(starts) == 1 else None,
        change_share=_change(ends_ms, [logs[position] for position in along]),
        first_fifth_ms=ends_ms and ends_ms[0],
        last_fifth_ms=ends_ms and ends_ms[1],
        low_ms=low_ms if scatters else None,
        high_ms=high_ms if scatters else None,
    )
    return Pace(step, around, kind, marks, "rows", covered=covered)


def _long_rows(run: Run, plain: Sequence[int], covered: Sequence[int]) -> Container[int]:
    """The rows that show the pace: all, or those that cover about as many iterations as usual. Some trainers print each
    of the first ten steps, and then every 500th."""
    if not covered:
        return range(len(run.rows))
    least = ENOUGH_COVERED * run.rows_cover
    return frozenset(index for index in plain if covered[index] >= least) or range(len(run.rows))


def steady(step: Step) -> bool:
    """Whether the steps certainly took the same time throughout: one level, no drift, and the last fifth like the
    first. A few rows with much scatter cannot show this."""
    if len(step.levels) > 1 or step.drift_share is not None or not step.first_fifth_ms or not step.last_fifth_ms:
        return False
    of_a_row = MEDIAN_ERROR * (step.spread or 0.0)
    error = of_a_row * math.sqrt(2 * 5 / max(1, step.normal_rows))  # of the difference of two medians
    return error <= STEADY_ERROR and abs(step.last_fifth_ms / step.first_fifth_ms - 1) <= STEADY_SHARE


def micro_steps(run: Run) -> float | None:
    """Micro-batches per rank and iteration; None if the config is unknown."""
    accumulation = run.number("gradient_accumulation_steps")
    if accumulation is None or accumulation <= 0:
        return None
    return max(1.0, accumulation / max(1.0, run.number("gpu_count") or run.number("world_size") or 1.0))


def evaluation_in_steps(run: Run, forward_share: float = FORWARD_SHARE) -> float | None:
    """The expected cost of an evaluation in steps: 2 x eval_iters forward passes of one micro-batch."""
    eval_iters, per_step = run.number("eval_iters"), micro_steps(run)
    if eval_iters is None or eval_iters <= 0 or per_step is None:
        return None
    return 2 * eval_iters * forward_share / per_step


def _marks(run: Run) -> Marks:
    starts = {0, *(restart.row for restart in run.restarts)}  # a rollback may have left the last process without rows
    first = frozenset(row for row in starts if row < len(run.rows))
    if not run.row_contains_evaluation:
        return Marks(frozenset(), frozenset(), first)
    return Marks(
        evaluation=frozenset(evaluation.row for evaluation in run.evaluations if evaluation.row is not None),
        checkpoint=frozenset(checkpoint.row for checkpoint in run.checkpoints if checkpoint.row is not None),
        first=first,
    )


def _covered(run: Run, marks: Marks) -> Sequence[int]:
    """For each row, the number of iterations since the one before; 1 for the first row of a process."""
    if run.rows_cover_shown_by == "trainer":  # some rows cover more, even if most cover one iteration
        return since_row_before(run)
    if run.rows_cover == 1:
        return ()
    covered, last = array("q"), 0
    from_start = run.rows_cover_shown_by == "clock"
    most = run.rows.last_iteration[-1] if from_start and len(run.rows) else run.rows_cover
    for index, (first, end, count) in enumerate(
        zip(run.rows.iteration, run.rows.last_iteration, run.rows.count, strict=True)
    ):
        alone = index in marks.first and not (index == 0 and from_start)
        since = first - last if count == 1 else run.rows_cover
        covered.append(1 if alone else min(most, max(1, since)))
        last = end
    return covered


def _baseline_around(
    rows: Rows, plain: Sequence[int], logs: Sequence[float], kept: Sequence[int], starts: Sequence[int]
) -> array[float]:
    """For every row, the rolling median of its own level. A row outside `kept` takes its predecessor's; between two
    levels, the slower one counts, so that the excess is not overstated."""
    smooth: list[float] = []
    for start, end in zip(starts, [*starts[1:], len(kept)], strict=True):
        smooth += baseline([logs[position] for position in kept[start:end]])
    _follow_rows_at_changes([logs[position] for position in kept], smooth, starts)
    around = array("d", bytes(8 * len(rows)))
    filled = 0
    current = math.exp(smooth[0])
    begins = {kept[start] for start in starts}
    for position, level in zip(kept, smooth, strict=True):
        index = plain[position]
        before = max(current, math.exp(level)) if position in begins else current
        for skipped in range(filled, index):
            around[skipped] = before
        current = math.exp(level)
        around[index] = current
        filled = index + 1
    for skipped in range(filled, len(rows)):
        around[skipped] = current
    return around


def _follow_rows_at_changes(logs: Sequence[float], smooth: list[float], starts: Sequence[int]) -> None:
    """Where a level starts is known to within a few rows: those that take as long as the slower level, and too long for
    the faster one, belong to the slower one."""
    deviation = median(abs(log - level) for log, level in zip(logs, smooth, strict=True))
    outside = OUTSIDE_NOISE * max(deviation, LEAST_NOISE) / MAD
    for start, end in pairwise([*starts[1:], len(logs)]):
        faster, slower = sorted(smooth[start - 1 : start + 1])
        for position in range(max(0, start - LEAST_ROWS), min(end, start + LEAST_ROWS)):
            if logs[position] > faster + outside and abs(logs[position] - slower) < (slower - faster) / 2:
                smooth[position] = max(slower, smooth[position])


def _classify(
    rows: Rows,
    plain: Sequence[int],
    logs: Sequence[float],
    kept: Sequence[int],
    special: frozenset[int],
    around: array[float],
    rounded: float,
) -> tuple[bytearray, float]:
    """The kind of every row, and the noise of the plain ones (scaled MAD), which is at least the rounding error."""
    residuals = [log - math.log(max(around[index], LEAST_MS)) for index, log in zip(plain, logs, strict=True)]
    deviation = max(rounded, _deviation([(residuals[position], rows.count[plain[position]]) for position in kept]))
    noise = max(deviation, LEAST_NOISE) / MAD
    bound, slow = OUTSIDE_NOISE * noise, max(CLEARLY_SLOW * noise, math.log(SLOW_RATIO))
    slow = min(slow, max(bound, math.log(MOST_UNEVEN)))
    slow_ratio = math.exp(min(slow, MOST_LOG))
    kind = bytearray(len(rows))
    for index, residual in zip(plain, residuals, strict=True):
        if residual > bound:
            kind[index] = SLOW if residual >= slow else UNEVEN
    for index in special:
        kind[index] = SLOW if rows.ms[index] > around[index] * slow_ratio else MARKED
    return kind, deviation / MAD


def _deviation(residuals: Sequence[tuple[float, int]]) -> float:
    """The median deviation of one row. Folded rows scatter less, and some single ones are slow."""
    if max(count for _, count in residuals) > 1:
        single = [abs(each) for each, count in residuals if count == 1 and each < math.log(SLOW_RATIO)]
        if len(single) >= ENOUGH_SINGLE:
            return median(single)
    return median(abs(each) for each, _ in residuals)


def _levels(rows: Rows, normal: Sequence[int], weights: Sequence[int], starts: Sequence[int]) -> tuple[Level, ...]:
    """The stretches that start at the rows `starts`; the first one starts at the very first row."""
    levels = []
    bounds = [0, *starts[1:], len(rows)]
    for begin, end in pairwise(bounds):
        own = slice(bisect_left(normal, begin), bisect_left(normal, end))
        times = [rows.ms[index] for index in normal[own]]
        last = rows.last_iteration[end - 1]
        if end < len(rows):
            last = min(last, rows.iteration[end] - 1)  # groups may overlap, levels do not
        levels.append(Level(rows.iteration[begin], last, weighted_median(times, weights[own])))
    return tuple(levels)


def _change(fifths_ms: tuple[float, float] | None, logs: Sequence[float]) -> float | None:
    """How much longer a step took in the last fifth, if that is much and not chance."""
    if fifths_ms is None or not fifths_ms[0]:
        return None
    share = fifths_ms[1] / fifths_ms[0] - 1
    return share if abs(share) >= CHANGED_SHARE and trend(logs) * share > 0 else None


def _pace_without_plain_rows(run: Run, marks: Marks) -> Pace:
    """For a run in which every row contains an evaluation or a start-up: only the time of a row is known, and which
    first rows of a process took longer."""
    rows = run.rows
    later = [index for index in range(len(rows)) if index not in marks.first] or range(len(rows))
    usual_ms = typical((rows.ms[index], rows.count[index]) for index in later) if len(rows) else 0.0
    kind = bytearray([MARKED]) * len(rows)
    for index in marks.first:
        begins = index > 0 or rows.iteration[0] == 0  # an excerpt starts with an ordinary row
        kind[index] = SLOW if begins and rows.ms[index] > SLOW_RATIO * usual_ms else MARKED
    first, last = (rows.iteration[0], rows.last_iteration[-1]) if len(rows) else (0, 0)
    return Pace(
        step=Step(usual_ms, 0.0, 0, 0, (Level(first, last, usual_ms),), None),
        baseline_ms=array("d", [usual_ms]) * len(rows),
        kind=kind,
        marks=marks,
        basis="none",
        covered=_covered(run, marks),
    )
