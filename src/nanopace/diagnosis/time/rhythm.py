"""Stalls that recur at a fixed interval, and the rows with an evaluation or a save that they delay as well."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from nanopace.diagnosis.time.counting import most_frequent
from nanopace.diagnosis.time.experiment import SAME_SPEED
from nanopace.diagnosis.time.rows import Pace
from nanopace.medians import median
from nanopace.run import Run

LEAST_PERIODIC = 4  # rows for a rhythm: three may be equally spaced by chance
MOSTLY = 0.7  # of the rows due at the rhythm must be slow, and of the unexplained rows must follow it
NEAREST = 5  # stalls that show how long one takes here


def find_rhythm(run: Run, pace: Pace, unexplained: Sequence[int]) -> tuple[int | None, frozenset[int]]:
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
    # What recurs counts from the first iteration: if 250, 750 and 1250 are late and 500 and 1000 evaluate, it is 250.
    finer = math.gcd(period, phase)
    if {index for index in plain if run.rows.iteration[index] % finer == 0} <= keeping and max(run.rows.count) == 1:
        period = finer
    regular = len(keeping) >= max(LEAST_PERIODIC, MOSTLY * len(unexplained), MOSTLY * due) and between >= due - 1
    return (period, keeping) if regular else (None, frozenset())


def delays_of_events(run: Run, pace: Pace, period: int | None, periodic: frozenset[int]) -> dict[int, float]:
    """By row with an evaluation or a save: how much the stall that is due there delays it."""
    if period is None:
        return {}
    phase, rows = run.rows.iteration[min(periodic)] % period, run.rows
    events = (pace.marks.evaluation | pace.marks.checkpoint) - pace.marks.first
    # A folded row stands for rows that took about as long, most of which are not due.
    due = [row for row in events if rows.count[row] == 1 and rows.iteration[row] % period == phase]
    return {row: _delay_ms(run, pace, row, periodic) for row in due}


def _delay_ms(run: Run, pace: Pace, row: int, periodic: frozenset[int]) -> float:
    """The stall in a row with an evaluation or a save, as the nearest ones at the same speed show."""
    step_ms = pace.baseline_ms[row]
    alike = [each for each in periodic if 1 / SAME_SPEED <= pace.baseline_ms[each] / step_ms <= SAME_SPEED]
    nearest = sorted(alike or periodic, key=lambda each: abs(each - row))[:NEAREST]
    return min(median(pace.excess_ms(run.rows, each) for each in nearest), pace.excess_ms(run.rows, row))
