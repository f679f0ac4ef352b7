"""The natural experiment in a log: evaluation rows with a save compared with those without.

Evaluations scale with the step time, and saves cluster where the loss falls fastest, so rows are only compared with
rows of the same speed; a different speed says nothing about a checkpoint. Each cost has an 80% interval, from the
scatter of both groups.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from nanopace.diagnosis.time.baseline_rows import LEAST_MS
from nanopace.diagnosis.time.levels import MAD
from nanopace.medians import median, rank_difference, typical, weighted_quantiles

SAME_SPEED = 1.03  # rows are compared if their steps differ by no more than this
FEW = 10  # with fewer rows, each counts in the scatter; with more, an outlier is a stall
SEVERAL = 3  # rows with a save, and as many without: fewer may all contain a stall
LEFT = 2  # rows without a save needed at one speed
STALLED = 2.0  # times the usual: a row that took longer contains a stall
VISIBLE = 6.0  # times the noise of a step: an evaluation is visible in a row from this excess on
ENOUGH = 4  # rows for a group to have its own scatter
OF_THE_SCATTER = 0.75  # three standard errors of the rolling median of steps
STEADY = 0.005  # of a step: its rolling median moves this much by chance
SURE = 3.0  # times half of an 80% interval: exceeded once in thousands
LEAST_SCATTER = 0.005  # of an evaluation: very few rows may agree by chance
SURE_OF_HALVES = 3.0  # standard errors between two halves of the rows of one kind
MOST_SWITCHES = 3  # between rows with and without a save: with more, both kinds are at all places of the run
OF_A_MEDIAN = 1.2533  # standard error of a median over that of a mean

# Evaluation time goes with a power of the step time. If rows without a save at several speeds show a power close to 1
# (forward passes slow down like steps) or to 0, it is also used for speeds at which all rows save.
CLEAR_POWER = 0.3

Z_80 = 1.2816  # half of the 80% interval of normal noise, in standard deviations
_T_80 = (math.inf, 3.08, 1.89, 1.64, 1.53, 1.48, 1.44, 1.41, 1.40)  # Student's t by degrees of freedom


class Sample(NamedTuple):
    """An evaluation row, or `rows` of them: its excess over the step, and the step time around it."""

    excess_ms: float
    rows: int
    step_ms: float
    saves: bool


class Cost(NamedTuple):
    """A typical cost, its 80% interval, and bounds that are nearly certain."""

    ms: float
    low_ms: float
    high_ms: float
    least_ms: float
    most_ms: float


class Experiment(NamedTuple):
    """The costs of an evaluation and a checkpoint; the latter is None if saves only occur at other speeds."""

    evaluation: Cost
    checkpoint: Cost | None


def compare_rows(samples: Sequence[Sample], spread: float) -> Experiment | None:
    """Compare rows with and without a save at equal speed. `spread` is the relative scatter of plain steps."""
    saved, unsaved = by_save(samples)
    if not saved or rows_of(unsaved) < SEVERAL:
        return None
    trend_ms = _trend_ms(samples)
    saved, unsaved = without_stalled(saved, spread), without_stalled(unsaved, spread)
    samples = [*saved, *unsaved]
    split = map(by_save, by_speed(samples, spread))
    pairs = [(saves, others) for saves, others in split if saves and rows_of(others) >= LEFT]
    checkpoint = _checkpoint(pairs, spread) if pairs else _across_speeds(samples, spread)
    if checkpoint is not None and trend_ms:
        checkpoint = cost_around(checkpoint.ms, checkpoint.high_ms - checkpoint.ms + trend_ms)
    return Experiment(cost_of(unsaved, spread), checkpoint)


def _trend_ms(samples: Sequence[Sample]) -> float:
    """By how much evaluations themselves changed from the rows of one kind to those of the other, as the trend within
    each kind shows; 0 if the kinds alternate. `samples` are in the order of the run."""
    kinds, switches = by_save(samples), sum(before.saves != after.saves for before, after in pairwise(samples))
    if switches > MOST_SWITCHES or min(map(len, kinds)) < ENOUGH or max(each.rows for each in samples) > 1:
        return 0.0
    trend_ms = 0.0
    for kind in kinds:
        shares, half = [each.excess_ms / max(each.step_ms, LEAST_MS) for each in kind], len(kind) // 2
        if abs(rank_difference(shares[:half], shares[-half:])) >= SURE_OF_HALVES:
            trend_ms += abs(median(shares[:half]) - median(shares[-half:])) * typical_step_ms(kind)
    return trend_ms


def without_stalled(samples: Sequence[Sample], spread: float) -> list[Sample]:
    """Rows of one kind without those that took far longer than the rest: a stall says nothing about the cost.

    Nothing makes a row shorter than what it contains, so the measure is the lower quartile, or the shortest if there
    are few. The exception is a clock that was set back: rows without a visible excess are left out if at least half
    have one.
    """
    showing = [each for each in samples if each.excess_ms > VISIBLE * spread * each.step_ms]
    if not showing or 2 * rows_of(showing) < rows_of(samples):
        showing = list(samples)
    if not showing:
        return []
    times = [each.excess_ms for each in showing]
    (measure_ms,) = weighted_quantiles(times, [each.rows for each in showing], (0.25,))
    step_ms = showing[times.index(measure_ms)].step_ms
    return [each for each in showing if each.excess_ms <= stall_bound_ms(measure_ms, each.step_ms, step_ms, spread)]


def stall_bound_ms(usual_ms: float, step_ms: float, usual_step_ms: float, spread: float) -> float:
    """The excess beyond which a row contains a stall, if similar rows take `usual_ms`. Where steps take longer,
    evaluations may as well."""
    slower = max(1.0, step_ms / max(usual_step_ms, LEAST_MS))
    return max(STALLED * usual_ms * slower, usual_ms + VISIBLE * spread * step_ms)


def by_save(samples: Sequence[Sample]) -> tuple[list[Sample], list[Sample]]:
    """The rows with a save, and those without."""
    return [each for each in samples if each.saves], [each for each in samples if not each.saves]


def rows_of(samples: Sequence[Sample]) -> int:
    """The number of log rows these stand for."""
    return sum(sample.rows for sample in samples)


def cost_of(samples: Sequence[Sample], spread: float) -> Cost:
    """The typical cost of rows of one kind; if stretches differ, the interval spans them."""
    ms = typical_ms(samples)
    half = _t_80(len(samples) - 1) * _error(samples, _scatter([samples], spread), spread)
    cost, stretches = cost_around(ms, half), [typical_ms(stretch) for stretch in by_speed(samples, spread)]
    return cost._replace(low_ms=min(cost.low_ms, *stretches), high_ms=max(cost.high_ms, *stretches))


def by_speed(samples: Sequence[Sample], spread: float = 0.0) -> list[list[Sample]]:
    """Stretches of one speed, fastest first. If steps scatter widely, so does their rolling median."""
    stretches: list[list[Sample]] = []
    same = max(SAME_SPEED, 1 + OF_THE_SCATTER * spread)
    for sample in sorted(samples, key=lambda each: each.step_ms):
        if stretches and sample.step_ms <= same * stretches[-1][0].step_ms:
            stretches[-1].append(sample)
        else:
            stretches.append([sample])
    return stretches


def step_exponent(samples: Sequence[Sample]) -> float | None:
    """1.0 if rows of one kind take a fixed number of steps, 0.0 if a fixed time, None if neither is evident."""
    stretches = by_speed(samples)
    if len(stretches) < 2 or len(samples) < 4:
        return None
    fast, slow = stretches[0], stretches[-1]
    apart = math.log(typical_step_ms(slow) / typical_step_ms(fast))
    low, high = typical_ms(fast), typical_ms(slow)
    if low <= 0 or high <= 0:
        return None
    power = math.log(high / low) / apart
    return next((each for each in (0.0, 1.0) if abs(power - each) <= CLEAR_POWER), None)


def _checkpoint(pairs: Sequence[tuple[list[Sample], list[Sample]]], spread: float) -> Cost:
    """The differences within all stretches combined; the stretch with the most information has the largest weight."""
    pooled = _scatter([group for pair in pairs for group in pair], spread)
    freedom = sum(len(group) - 1 for pair in pairs for group in pair)
    weights = [1 / (1 / len(saved) + 1 / len(unsaved)) for saved, unsaved in pairs]
    ms = doubt = variance = 0.0
    for (saved, unsaved), weight in zip(pairs, weights, strict=True):
        share = weight / sum(weights)
        faster = typical_step_ms(saved) / typical_step_ms(unsaved) - 1
        slower_ms = typical_ms(unsaved) * faster if abs(faster) > STEADY else 0.0  # if it scales with steps
        ms += share * (typical_ms(saved) - typical_ms(unsaved) - slower_ms / 2)
        doubt += share * abs(slower_ms) / 2
        variance += share**2 * (_error(saved, pooled, spread) ** 2 + _error(unsaved, pooled, spread) ** 2)
    return cost_around(ms, doubt + _t_80(freedom) * math.sqrt(variance))


def _across_speeds(samples: Sequence[Sample], spread: float) -> Cost | None:
    """The cost if no stretch has both kinds; only possible if rows without a save show how evaluations scale with the
    step."""
    saved, unsaved = by_save(samples)
    power = step_exponent(unsaved)
    if power is None:
        return None
    nearest = min(by_speed(unsaved), key=lambda each: abs(math.log(typical_step_ms(each) / typical_step_ms(saved))))
    away = typical_step_ms(saved) / typical_step_ms(nearest)
    evaluation = typical_ms(nearest) * away**power
    doubt = CLEAR_POWER * abs(math.log(away)) * evaluation
    pooled = _scatter([saved, nearest], spread)
    error = math.hypot(_error(saved, pooled, spread), _error(nearest, pooled, spread))
    return cost_around(typical_ms(saved) - evaluation, doubt + _t_80(len(saved) + len(nearest) - 2) * error)


def cost_around(ms: float, half: float) -> Cost:
    """A cost with its intervals, clipped at 0; `half` is half of the 80% interval."""
    return Cost(*(max(0.0, each) for each in (ms, ms - half, ms + half, ms - SURE * half, ms + SURE * half)))


def _scatter(groups: Sequence[Sequence[Sample]], spread: float) -> float:
    """The standard deviation of one row within its group; with few rows, at least that of steps."""
    centres = [typical_ms(group) for group in groups]
    largest = max(centres)
    off = [abs(each.excess_ms - c) for group, c in zip(groups, centres, strict=True) for each in group]
    freedom = len(off) - len(groups)
    if len(off) >= FEW:
        seen = median(off) / MAD
    else:
        seen = math.sqrt(sum(each**2 for each in off) / freedom) if freedom > 0 else 0.0
    return max(seen, spread * largest, LEAST_SCATTER * largest) if freedom < 3 else seen


def _error(group: Sequence[Sample], pooled: float, spread: float) -> float:
    """The standard error of a group's typical row: from its own scatter, or from that of all rows if it has few."""
    own = _scatter([group], spread) if len(group) > 1 else 0.0
    scatter = own if len(group) >= ENOUGH else max(own, pooled)
    return (OF_A_MEDIAN if len(group) > 2 else 1.0) * scatter / math.sqrt(len(group))


def _t_80(freedom: int) -> float:
    freedom = max(1, freedom)  # with none, the scatter is that of steps
    return _T_80[freedom] if freedom < len(_T_80) else Z_80 + 0.85 / freedom


def typical_ms(samples: Sequence[Sample]) -> float:
    """The typical excess of these rows over their step."""
    return typical((sample.excess_ms, sample.rows) for sample in samples)


def typical_step_ms(samples: Sequence[Sample]) -> float:
    """The typical step time around these rows."""
    return typical((max(sample.step_ms, LEAST_MS), sample.rows) for sample in samples)
