"""What a slow row consists of: start-up, evaluation, checkpoint, restart, fetching data, a recurring stall, or a single
one."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import NamedTuple

from nanopace.diagnosis.result import Cause, SlowRow, Startup
from nanopace.diagnosis.time.costs import Costs, find_costs
from nanopace.diagnosis.time.counting import cold_rows
from nanopace.diagnosis.time.experiment import STALLED, VISIBLE, Sample, typical_ms, without_stalled
from nanopace.diagnosis.time.rhythm import delays_of_events, find_rhythm
from nanopace.diagnosis.time.rows import MARKED, SLOW, Pace
from nanopace.diagnosis.time.samples import level_shifts
from nanopace.medians import median
from nanopace.run import Run

WARM_UP_ROWS = 10  # slow rows this soon after the first are still compiling
NEIGHBOURS = 5  # rows on either side that show what is usual there
CHANCE = 0.001  # that so many slow rows contain a fetch: below this, the fetches delayed them
STALLS: tuple[Cause, ...] = ("stall", "periodic", "data")
MOST_OF_START = 0.98  # if an evaluation takes more of a first row, too little is left to identify its start-up


class Breakdown(NamedTuple):
    """What every row that took longer than its steps consists of."""

    slow_rows: tuple[SlowRow, ...]
    parts: Mapping[int, Mapping[Cause, float]]  # excess by cause and row index, also for rows that are not slow
    startup: Startup | None
    costs: Costs
    period: int | None  # iterations between recurring stalls


def break_down_rows(run: Run, pace: Pace) -> Breakdown:
    """Explain the excess of every row."""
    warming = _warming(pace, cold_rows(run, pace))
    explained = {*warming, *pace.marks.evaluation, *pace.marks.checkpoint}
    unexplained = [index for index, kind in enumerate(pace.kind) if kind == SLOW and index not in explained]
    fetching = _delayed_by_fetches(run, unexplained)
    period, periodic = find_rhythm(run, pace, [index for index in unexplained if index not in fetching])
    pace = pace._replace(delays=delays_of_events(run, pace, period, periodic), shifts=level_shifts(run, pace))
    costs = find_costs(run, pace)
    stalled = _stalls_without_baseline(run, pace) if pace.basis == "none" else {}

    parts: dict[int, Mapping[Cause, float]] = {}
    for index, kind in enumerate(pace.kind):
        if kind:  # not NORMAL
            excess = pace.excess_ms(run.rows, index)
            if index in warming:
                parts[index] = _start_parts(excess, warming[index], index, pace, costs)
            elif pace.basis == "none":
                parts[index] = stalled.get(index, {})  # the rest of its excess is unknown
            elif index in pace.marks.evaluation or index in pace.marks.checkpoint:
                parts[index] = _event_parts(excess, index, run.rows.count[index], pace, costs)
            elif kind == MARKED:
                parts[index] = {}  # the first row of a process, but like the others
            else:
                parts[index] = {"data" if index in fetching else "periodic" if index in periodic else "stall": excess}
    slow = [index for index, kind in enumerate(pace.kind) if kind == SLOW or index in stalled]
    return Breakdown(
        slow_rows=tuple(_slow_row(run, pace, index, parts[index]) for index in slow),
        parts=parts,
        startup=_startup(run, pace, costs, parts),
        costs=costs,
        period=period,
    )


def _warming(pace: Pace, cold: frozenset[int]) -> dict[int, Cause]:
    """First rows of processes and the slow ones right after, each with the cause of its excess."""
    warming: dict[int, Cause] = {}
    marked, most = pace.marks.rows, WARM_UP_ROWS
    for first in sorted(cold):
        cause: Cause = "restart" if first else "compile"
        warming[first] = cause
        following = range(first + 1, min(first + most, len(pace.kind)))
        for index in following if pace.kind[first] == SLOW else ():
            if pace.kind[index] != SLOW or index in marked:
                break
            warming[index] = cause
        if not first:  # later processes warm up like the first one
            most = max(1, len(warming))
    return warming


def _delayed_by_fetches(run: Run, slow: Collection[int]) -> frozenset[int]:
    """The slow rows that contain a fetch of data, if there are more of them than chance explains.

    Where fetches delay nothing, they hit a row by its length, so a slow one more often than others.
    """
    if not run.fetches or not slow:
        return frozenset()
    fetches = frozenset(run.fetches)
    hit = frozenset(index for index in slow if run.rows.last_iteration[index] in fetches)
    slow_ms = sum(run.rows.ms[index] for index in slow) / len(slow)
    usual = min(1.0, len(fetches) * slow_ms / sum(run.rows.sum_ms))
    return hit if _chance_of(len(hit), len(slow), usual) < CHANCE else frozenset()


def _chance_of(hits: int, of: int, usual: float) -> float:
    """An upper bound of the chance of so many hits or more, if each has the chance `usual` (Chernoff's bound)."""
    share = hits / of
    if share <= usual:
        return 1.0
    missed = (1 - share) * math.log((1 - share) / (1 - usual)) if share < 1 else 0.0
    return math.exp(-of * (share * math.log(share / usual) + missed))


def _start_parts(excess: float, cause: Cause, index: int, pace: Pace, costs: Costs) -> dict[Cause, float]:
    """The parts of a start-up row, with its evaluation separate if the cost of one is known and leaves something
    over."""
    known = costs.evaluations.each_ms is not None and not costs.evaluations.contains_checkpoint and not costs.rough
    evaluation = costs.evaluation_at(pace.baseline_ms[index])
    if index not in pace.marks.evaluation or not known or evaluation is None or evaluation > MOST_OF_START * excess:
        return {cause: excess}
    return {cause: excess - evaluation, "evaluation": evaluation}


def _stalls_without_baseline(run: Run, pace: Pace) -> dict[int, Mapping[Cause, float]]:
    """Stalls if no row is a plain step: rows that took far longer than similar ones nearby (with or without a save)."""
    stalls: dict[int, Mapping[Cause, float]] = {}
    for saves in (True, False):
        own = [
            row for row in sorted(pace.marks.evaluation - pace.marks.first) if (row in pace.marks.checkpoint) == saves
        ]
        samples = [Sample(pace.covers(row) * run.rows.ms[row], run.rows.count[row], 1.0, saves) for row in own]
        around = (samples[max(0, at - NEIGHBOURS) : at + NEIGHBOURS + 1] for at in range(len(own)))  # speeds change
        usual = [typical_ms(without_stalled(each, 0.0)) for each in around]
        for row, sample, usual_ms in zip(own, samples, usual, strict=True):
            if sample.excess_ms > STALLED * max(usual_ms, _around_ms(run, pace, row)) > 0:
                stalls[row] = {"stall": sample.rows * (sample.excess_ms - usual_ms)}
    return stalls


def _around_ms(run: Run, pace: Pace, row: int) -> float:
    """What rows take on the slower side of this one, whether they save or not: the speed may change right here."""
    sides = range(max(0, row - NEIGHBOURS), row), range(row + 1, min(len(run.rows), row + 1 + NEIGHBOURS))
    times = ([pace.covers(index) * run.rows.ms[index] for index in side] for side in sides)
    return max((median(side) for side in times if len(side) == NEIGHBOURS), default=0.0)


def _event_parts(excess: float, index: int, count: int, pace: Pace, costs: Costs) -> Mapping[Cause, float]:
    """The parts of a row with an evaluation, a save or both, and a stall if it took far longer than usual; for `count`
    rows."""
    saves, evaluates = index in pace.marks.checkpoint, index in pace.marks.evaluation
    around_ms = max(pace.baseline_ms[index], *pace.baseline_ms[index : index + 2])  # the speed may change right here
    usual_ms = costs.usual_at(saves, around_ms) if evaluates else costs.checkpoint_ms
    expected = excess if usual_ms is None else count * usual_ms
    most = max(STALLED * expected, expected + count * VISIBLE * pace.spread * around_ms)
    stall = excess - expected if excess > most else 0.0
    parts: dict[Cause, float] = {"evaluation" if evaluates else "checkpoint": excess - stall}
    if evaluates and saves and costs.checkpoint_ms is not None:
        checkpoint = min(excess - stall, count * costs.checkpoint_ms)
        parts = {"evaluation": excess - stall - checkpoint, "checkpoint": checkpoint}
    periodic = pace.delays.get(index, 0.0)
    if 0 < stall <= periodic / 2 and not costs.saves_in_doubt:  # this time, it took a little longer
        stall, periodic = 0.0, periodic + stall
    elif stall:  # one delay, whatever recurs
        stall, periodic = stall + periodic, 0.0
    return {**parts, **({"stall": stall} if stall else {}), **({"periodic": periodic} if periodic else {})}


def _slow_row(run: Run, pace: Pace, index: int, parts: Mapping[Cause, float]) -> SlowRow:
    causes = list(parts)
    if index in pace.marks.evaluation and "evaluation" not in causes:
        causes.append("evaluation")  # contained in it, at an unknown cost
    if index in pace.marks.checkpoint and "checkpoint" not in causes:
        causes.append("checkpoint")
    count = run.rows.count[index]
    return SlowRow(
        iteration=run.rows.last_iteration[index],
        ms=run.rows.ms[index],
        excess_ms=(parts["stall"] if pace.basis == "none" and "stall" in parts else pace.excess_ms(run.rows, index))
        / count
        + pace.delays.get(index, 0.0),
        causes=tuple(causes),
        parts_ms={str(cause): ms / count for cause, ms in parts.items()},
        count=count,
    )


def _startup(run: Run, pace: Pace, costs: Costs, parts: Mapping[int, Mapping[Cause, float]]) -> Startup | None:
    """The first row, if it is more than a step and the log really starts there."""
    if 0 not in costs.cold_rows or pace.kind[0] != SLOW or pace.basis == "none":
        return None
    each = {cause: ms / run.rows.count[0] for cause, ms in parts[0].items()}  # it may be folded with similar ones
    evaluation = each.get("evaluation", None if 0 in pace.marks.evaluation else 0.0)
    return Startup(
        total_ms=pace.covers(0) * run.rows.ms[0],
        step_ms=pace.covers(0) * pace.baseline_ms[0],
        evaluation_ms=evaluation,
        compile_ms=None if evaluation is None else each["compile"],
    )
