"""The time left, with an 80% interval from how much the run's own pace has varied so far.

The run so far is cut into at most 20 stretches, each a whole number of evaluation intervals. With s, the standard
deviation of the logarithms of their paces, the error is taken to be

    w = (s / 2 + 0.015) * (left / seen)^(1/4)

so that it grows with what is left and shrinks with what was seen. The time left is forecast at the pace of the last
rows; the run may also return to its mean pace. The interval goes from the lower of these two, times exp(-w / 2), to the
higher, times exp(w): runs become slower more often than faster. 0.015 allows for what a run that was steady so far may
still meet. The constants were chosen on one half of the logs of bench/eta.py and tested on the other
(docs/experiments/forecast.md).
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate

from nanopace.diagnosis.result import Ahead, Wall
from nanopace.diagnosis.time.rhythm import LEAST_PERIODIC
from nanopace.diagnosis.time.rows import Pace
from nanopace.diagnosis.time.slow_rows import STALLS, Breakdown
from nanopace.diagnosis.time.wall_time import Clock, bucket_of, is_event, without_stall
from nanopace.medians import typical
from nanopace.run import Rows, Run

STRETCHES = 20
FEWEST = 3  # stretches: with fewer, the variation of the pace is unknown
FLOOR = 0.015
GROWS = 0.25


def look_ahead(run: Run, pace: Pace, breakdown: Breakdown, wall: Wall, clock: Clock) -> Ahead:
    """Forecast the rest of the run at the pace of the last rows, with evaluations at their interval and, if stalls
    recur, stalls as often as so far."""
    rows = run.rows
    done = rows.last_iteration[-1] - rows.iteration[0] + 1 if len(rows) else 0
    evaluations = breakdown.costs.evaluations
    before = [each for each in run.evaluations if each.iteration <= 0]  # those inside rows were not measured and add 0
    first_s = sum(without_stall(each, breakdown.costs, pace)[0] for each in before) / 1000
    overhead_s = (wall.evaluation_s or 0.0) - first_s + (wall.checkpoint_s or 0.0)
    if evaluations.count and evaluations.interval:
        overhead_s /= evaluations.count * evaluations.interval
    else:
        overhead_s /= max(1, done)
    now_ms = pace.baseline_ms[-1] if len(rows) else 0.0
    steps_s = now_ms / 1000 + _recurring_s(run, breakdown) / max(1, done)
    each_s = steps_s + overhead_s
    limit = run.number("max_iters")
    remaining = iterations_left(run, int(limit), rows) if limit is not None and len(rows) else None
    eta_s = None if remaining is None or pace.basis == "none" else remaining * each_s
    if eta_s and limit is not None and evaluations.count and evaluations.interval:  # the remaining ones can be counted
        to_come = int(limit) // evaluations.interval - rows.last_iteration[-1] // evaluations.interval
        eta_s = (remaining or 0) * steps_s + to_come * evaluations.interval * overhead_s
    low_s, high_s = None, None
    if eta_s:
        ends_s = _awake_ends(rows, clock)
        low_s, high_s = eta_interval(eta_s, remaining or 0, rows.last_iteration, ends_s, evaluations.interval)
    return Ahead(
        seconds_per_1000=1000 * each_s if pace.basis == "rows" or run.rows_cover > 1 else None,
        max_iters=None if limit is None else int(limit),
        remaining_iterations=remaining,
        eta_s=eta_s,
        overhead_share=overhead_s / each_s if wall.overhead_share is not None and each_s else None,
        eta_low_s=low_s,
        eta_high_s=high_s,
    )


def iterations_left(run: Run, limit: int, rows: Rows) -> int:
    """The iterations after the last row until max_iters."""
    return 0 if run.ending == "finished" else max(0, limit - run.stops_before_max_iters - rows.last_iteration[-1])


def _awake_ends(rows: Rows, clock: Clock) -> Sequence[float]:
    """The wall clock at the end of each row, without the time that the machine slept."""
    slept = [(event.iteration, event.ms / 1000) for event in clock.events if event.bucket == "suspended"]
    if not slept:
        return clock.row_end_s
    at, slept_s = [iteration for iteration, _ in slept], [0.0, *accumulate(seconds for _, seconds in slept)]
    ends = zip(rows.last_iteration, clock.row_end_s, strict=True)
    return [end_s - slept_s[bisect_right(at, iteration)] for iteration, end_s in ends]


def _recurring_s(run: Run, breakdown: Breakdown) -> float:
    """The time of all stalls if each were typical; 0 if there are too few to expect more."""
    stalls = [
        (ms / run.rows.count[row], run.rows.count[row])
        for row, parts in breakdown.parts.items()
        if (ms := sum(parts.get(cause, 0.0) for cause in STALLS)) > 0
    ]
    stalls += [(span.ms, 1) for span in run.spans if is_event(span) and bucket_of(span) == "stall"]
    count = sum(count for _, count in stalls)
    return count * typical(stalls) / 1000 if count >= LEAST_PERIODIC else 0.0


def eta_interval(
    eta_s: float, remaining: int, iterations: Sequence[int], end_s: Sequence[float], interval: int | None
) -> tuple[float, float] | tuple[None, None]:
    """The 80% interval of `eta_s`; None if too little was seen. `iterations` and `end_s` describe the rows so far: the
    last iteration of each, and the wall clock at its end."""
    paces = stretch_paces(iterations, end_s, interval)
    if len(paces) < FEWEST or min(paces) <= 0 or remaining <= 0:
        return None, None
    logs = [math.log(pace) for pace in paces]
    mean = sum(logs) / len(logs)
    spread = math.sqrt(sum((each - mean) ** 2 for each in logs) / (len(logs) - 1))
    error = (spread / 2 + FLOOR) * (remaining / (iterations[-1] - iterations[0])) ** GROWS
    mean_s = remaining * sum(paces) / len(paces)
    return min(eta_s, mean_s) * math.exp(-error / 2), max(eta_s, mean_s) * math.exp(error)


def stretch_paces(iterations: Sequence[int], end_s: Sequence[float], interval: int | None) -> list[float]:
    """Seconds per iteration of each stretch, from the last row back to the end of the first, whose time includes the
    start-up."""
    if len(iterations) < FEWEST:
        return []
    seen = iterations[-1] - iterations[0]
    size = max(1, seen // STRETCHES)
    if interval:
        size = max(1, size // interval) * interval
    paces = []
    end, reached = len(iterations) - 1, iterations[-1]
    while (reached := reached - size) >= iterations[0]:
        begin = bisect_left(iterations, reached)
        if iterations[begin] < iterations[end]:
            paces.append((end_s[end] - end_s[begin]) / (iterations[end] - iterations[begin]))
        end = begin
    return paces
