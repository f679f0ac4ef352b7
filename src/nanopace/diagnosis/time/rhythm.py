"""Stalls that recur at a fixed interval, and the rows with an evaluation or a save that they delay as well."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise

from nanopace.diagnosis.time.counting import most_frequent
from nanopace.diagnosis.time.experiment import SAME_SPEED
from nanopace.diagnosis.time.rows import Pace
from nanopace.medians import median
from nanopace.run import Run

LEAST_PERIODIC = 4  # rows for a rhythm: three may be equally spaced by chance
MOSTLY = 0.7  # of the rows due at the rhythm must be slow, and of the unexplained rows must follow it
NEAREST, WITHIN = 5, 50  # stalls that show how long one takes here, from so many on either side
ABOUT = 1.5  # two times differ by at most this factor if one thing takes them both
APART = 2.0  # the slowest stalls are a kind of their own if the next one takes less than their part of this


def find_rhythm(run: Run, pace: Pace, unexplained: Sequence[int]) -> tuple[int | None, frozenset[int]]:
    """The interval at which unexplained slow rows recur throughout the run, and the rows that follow it. Two things may
    recur, each in its own rhythm, such as evaluations and data shards: then, the slower ones are looked at alone."""
    found = _rhythm_of(run, pace, unexplained)
    if found[0] is None and (slowest := _slowest(run, pace, unexplained)):
        return _rhythm_of(run, pace, slowest)
    return found


def _slowest(run: Run, pace: Pace, unexplained: Sequence[int]) -> Sequence[int]:
    """The rows above the widest gap between the delays, relative to them; none if no gap is wide."""
    by_delay = sorted(unexplained, key=lambda index: pace.typical_excess_ms(run.rows, index)[0])
    delays = [pace.typical_excess_ms(run.rows, index)[0] for index in by_delay]
    cuts = range(LEAST_PERIODIC, len(delays) - LEAST_PERIODIC + 1)
    ratio, cut = max(((delays[at] / max(delays[at - 1], 1e-9), at) for at in cuts), default=(0.0, 0))
    return sorted(by_delay[cut:]) if ratio >= APART else ()


def _rhythm_of(run: Run, pace: Pace, unexplained: Sequence[int]) -> tuple[int | None, frozenset[int]]:
    iterations = [run.rows.iteration[index] for index in unexplained]
    period = most_frequent(after - before for before, after in pairwise(iterations))
    if period is None or len(unexplained) < LEAST_PERIODIC:
        return None, frozenset()
    phases: dict[int, int] = {}
    for iteration in iterations:
        phases[iteration % period] = phases.get(iteration % period, 0) + 1
    phase = max(phases, key=lambda each: phases[each])
    keeping = frozenset(index for index in unexplained if run.rows.iteration[index] % period == phase)
    marked = pace.marks.rows
    plain = [index for index in range(len(run.rows)) if index not in marked]
    if max(run.rows.count) == 1:
        due = sum(run.rows.iteration[index] % period == phase for index in plain)
        between = len(plain) - due  # rows off the beat: without any, the rhythm is just the log interval
    else:  # folded rows do not show the iteration of each
        begin, end = min(keeping), max(keeping)
        due = (run.rows.iteration[end] - run.rows.iteration[begin]) // period + 1
        between = sum(run.rows.count[begin : end + 1]) - due
    regular = len(keeping) >= max(LEAST_PERIODIC, MOSTLY * len(unexplained), MOSTLY * due) and between >= due - 1
    return (_finest(run, pace, period, keeping), keeping) if regular else (None, frozenset())


def _finest(run: Run, pace: Pace, period: int, keeping: frozenset[int]) -> int:
    """The interval if it counts from the first iteration: if 300, 900 and 1500 are late, and of the evaluations at 200,
    400, 600 ... every third one takes longer by as much, it is 300. Where no evaluation is off the beat to compare
    with, nothing shows it."""
    rows, finer = run.rows, math.gcd(period, run.rows.iteration[min(keeping)])
    marked = pace.marks.rows
    due = {index for index in range(len(rows)) if rows.iteration[index] % finer == 0}
    if finer == period or max(rows.count) > 1 or not due - marked <= keeping:
        return period
    stall_ms = median(pace.excess_ms(rows, index) for index in keeping)
    shown = False
    for kind in _kinds_of_event(pace):
        on, off = ([pace.excess_ms(rows, index) for index in group] for group in (kind & due, kind - due))
        if on and off:
            if not 1 / ABOUT <= (median(on) - median(off)) / stall_ms <= ABOUT:
                return period
            shown = True
    return finer if shown else period


def _kinds_of_event(pace: Pace) -> tuple[frozenset[int], ...]:
    """Rows that evaluate, that evaluate and save, and that save, without those that start up as well."""
    evaluation, checkpoint = pace.marks.evaluation - pace.marks.first, pace.marks.checkpoint - pace.marks.first
    return evaluation - checkpoint, evaluation & checkpoint, checkpoint - evaluation


def delays_of_events(run: Run, pace: Pace, period: int | None, periodic: frozenset[int]) -> dict[int, float]:
    """By row with an evaluation or a save: how much the stall that is due there delays it."""
    if period is None:
        return {}
    phase, rows = run.rows.iteration[min(periodic)] % period, run.rows
    events = (pace.marks.evaluation | pace.marks.checkpoint) - pace.marks.first
    # A folded row stands for rows that took about as long, most of which are not due.
    due = [row for row in events if rows.count[row] == 1 and rows.iteration[row] % period == phase]
    ordered = sorted(periodic)
    return {row: _delay_ms(run, pace, row, ordered) for row in due}


def _delay_ms(run: Run, pace: Pace, row: int, periodic: Sequence[int]) -> float:
    """The stall in a row with an evaluation or a save, as the nearest ones at the same speed show."""
    step_ms, at = pace.baseline_ms[row], bisect_left(periodic, row)
    around = sorted(periodic[max(0, at - WITHIN) : at + WITHIN], key=lambda each: abs(each - row))
    alike = [each for each in around if 1 / SAME_SPEED <= pace.baseline_ms[each] / step_ms <= SAME_SPEED]
    nearest = (alike or around)[:NEAREST]
    return min(median(pace.excess_ms(run.rows, each) for each in nearest), pace.excess_ms(run.rows, row))
