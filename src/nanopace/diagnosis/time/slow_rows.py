"""What a slow row consists of: start-up, evaluation, checkpoint, restart, a recurring stall, or a single one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from nanopace.diagnosis.result import Cause, SlowRow, Startup
from nanopace.diagnosis.time.costs import Costs, find_costs
from nanopace.diagnosis.time.counting import most_frequent
from nanopace.diagnosis.time.experiment import STALLED, VISIBLE, Sample, typical_ms, without_stalled
from nanopace.diagnosis.time.rows import MARKED, SLOW, Pace
from nanopace.medians import rolling_median
from nanopace.run import Run

WARM_UP_ROWS = 10  # slow rows this soon after the first are still compiling
NEIGHBOURS = 5  # rows on either side that show what is usual there
LEAST_PERIODIC = 4  # rows for a rhythm: three may be equally spaced by chance
MOST_OF_START = 0.98  # if an evaluation takes more of a first row, too little is left to identify its start-up
MOSTLY = 0.7  # of the rows due at the rhythm must be slow, and of the unexplained rows must follow it


class Breakdown(NamedTuple):
    """What every row that took longer than its steps consists of."""

    slow_rows: tuple[SlowRow, ...]
    parts: Mapping[int, Mapping[Cause, float]]  # excess by cause and row index, also for rows that are not slow
    startup: Startup | None
    costs: Costs
    period: int | None  # iterations between recurring stalls


def break_down_rows(run: Run, pace: Pace) -> Breakdown:
    """Explain the excess of every row."""
    costs = find_costs(run, pace)
    warming = _warming(pace, costs)
    explained = {*warming, *pace.marks.evaluation, *pace.marks.checkpoint}
    unexplained = [index for index, kind in enumerate(pace.kind) if kind == SLOW and index not in explained]
    period, periodic = _periodic(run, pace, unexplained)
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
                parts[index] = {"periodic" if index in periodic else "stall": excess}
    slow = [index for index, kind in enumerate(pace.kind) if kind == SLOW or index in stalled]
    return Breakdown(
        slow_rows=tuple(_slow_row(run, pace, index, parts[index]) for index in slow),
        parts=parts,
        startup=_startup(run, pace, costs, parts),
        costs=costs,
        period=period,
    )


def _warming(pace: Pace, costs: Costs) -> dict[int, Cause]:
    """First rows of processes and the slow ones right after, each with the cause of its excess."""
    warming: dict[int, Cause] = {}
    marked = pace.marks.rows
    for first in costs.cold_rows:
        cause: Cause = "restart" if first else "compile"
        warming[first] = cause
        following = range(first + 1, min(first + WARM_UP_ROWS, len(pace.kind)))
        for index in following if pace.kind[first] == SLOW else ():
            if pace.kind[index] != SLOW or index in marked:
                break
            warming[index] = cause
    return warming


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
        if len(own) > NEIGHBOURS:  # the speed may change along the run
            usual = rolling_median([sample.excess_ms for sample in samples], NEIGHBOURS)
        else:
            usual = [typical_ms(without_stalled(samples, 0.0))] * len(own) if own else []
        for row, sample, usual_ms in zip(own, samples, usual, strict=True):
            if sample.excess_ms > STALLED * usual_ms > 0:
                stalls[row] = {"stall": sample.rows * (sample.excess_ms - usual_ms)}
    return stalls


def _event_parts(excess: float, index: int, count: int, pace: Pace, costs: Costs) -> Mapping[Cause, float]:
    """The parts of a row with an evaluation, a save or both, and a stall if it took far longer than usual; for `count`
    rows."""
    saves, evaluates = index in pace.marks.checkpoint, index in pace.marks.evaluation
    around_ms = max(pace.baseline_ms[index], *pace.baseline_ms[index : index + 2])  # the speed may change right here
    slower = (
        max(1.0, around_ms / pace.step_ms) if pace.step_ms else 1.0
    )  # where steps take longer, evaluations may as well
    usual_ms = costs.usual_ms.get(saves) if evaluates else costs.checkpoint_ms
    expected = excess if usual_ms is None else count * usual_ms * (slower if evaluates else 1.0)
    most = max(STALLED * expected, expected + count * VISIBLE * pace.spread * around_ms)
    stall = excess - expected if excess > most else 0.0
    parts: dict[Cause, float] = {"evaluation" if evaluates else "checkpoint": excess - stall}
    if evaluates and saves and costs.checkpoint_ms is not None:
        checkpoint = min(excess - stall, count * costs.checkpoint_ms)
        parts = {"evaluation": excess - stall - checkpoint, "checkpoint": checkpoint}
    return {**parts, "stall": stall} if stall else parts


def _periodic(run: Run, pace: Pace, unexplained: Sequence[int]) -> tuple[int | None, frozenset[int]]:
    """The interval at which unexplained slow rows recur throughout the run, and the rows that follow it."""
    iterations = [run.rows.iteration[index] for index in unexplained]
    period = most_frequent(after - before for before, after in pairwise(iterations))
    if period is None or len(unexplained) < LEAST_PERIODIC:
        return None, frozenset()
    phases: dict[int, int] = {}
    for iteration in iterations:
        phases[iteration % period] = phases.get(iteration % period, 0) + 1
    phase = max(phases, key=lambda each: phases[each])
    keeping = frozenset(index for index in unexplained if run.rows.iteration[index] % period == phase)
    plain = [index for index in range(len(run.rows)) if index not in pace.marks.rows]
    if max(run.rows.count) == 1:
        due = sum(run.rows.iteration[index] % period == phase for index in plain)
        between = len(plain) - due  # rows off the beat: without any, the rhythm is just the log interval
    else:  # folded rows do not show the iteration of each
        begin, end = min(keeping), max(keeping)
        due = (run.rows.iteration[end] - run.rows.iteration[begin]) // period + 1
        between = sum(run.rows.count[begin : end + 1]) - due
    regular = len(keeping) >= max(LEAST_PERIODIC, MOSTLY * len(unexplained), MOSTLY * due) and between >= due - 1
    return (period, keeping) if regular else (None, frozenset())


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
        / count,
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
