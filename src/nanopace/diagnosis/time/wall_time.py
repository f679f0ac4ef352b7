"""Account for every second of the run: the rows, and what happened between them.

A row's time beyond its steps goes to its causes; iterations between rows take the step time around them; evaluations
between rows take as long as visible ones. Our own ledger measures all of this, so that nothing needs to be
reconstructed.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Literal, NamedTuple, get_args

from nanopace.diagnosis.result import Cause, Restarts, Wall
from nanopace.diagnosis.time.baseline_rows import SLOW_RATIO
from nanopace.diagnosis.time.costs import Costs
from nanopace.diagnosis.time.experiment import STALLED
from nanopace.diagnosis.time.line_times import gaps_between_rows
from nanopace.diagnosis.time.rows import NORMAL, Pace
from nanopace.diagnosis.time.slow_rows import Breakdown
from nanopace.incidents import StallReason
from nanopace.medians import median
from nanopace.run import Checkpoint, Evaluation, Phase, Restart, Rollback, Run, Span

Bucket = Literal[  # as in the names of `Wall`
    "training", "evaluation", "checkpoint", "startup", "stall", "suspended", "restart", "rollback", "other", "unknown"
]  # fmt: skip

_OF_CAUSE: Mapping[Cause, Bucket] = {
    "compile": "startup",
    "evaluation": "evaluation",
    "checkpoint": "checkpoint",
    "restart": "restart",
    "periodic": "stall",
    "data": "stall",
    "stall": "stall",
}

# Phases that are part of a step are already in the rows.
_OF_PHASE: Mapping[Phase, Bucket] = {
    "evaluation": "evaluation",
    "checkpoint": "checkpoint",
    "compile": "startup",
    "startup": "startup",
    "stall": "stall",
    "logging": "other",
    "other": "other",
}


ENOUGH_LOST = 3  # rows that show the step time


class Event(NamedTuple):
    """Time between rows, just before the step of its iteration."""

    iteration: int
    bucket: Bucket
    ms: float
    stall: StallReason | None = None  # if the trainer reported it


class Clock(NamedTuple):
    """The wall clock along the run."""

    row_end_s: array[float]
    events: tuple[Event, ...]
    event_end_s: array[float]
    hidden_s: float  # evaluations between rows, with their checkpoints
    after_s: float  # after the last row


def account(run: Run, pace: Pace, breakdown: Breakdown) -> tuple[Wall, Restarts, Clock]:
    """Assign every millisecond to one bucket."""
    events = _between_rows(run, pace, breakdown)
    spent: dict[Bucket, float] = dict.fromkeys(get_args(Bucket), 0.0)
    row_end_s, event_end_s = _walk(run, pace, breakdown, events, spent)
    remainder = (run.wall_ms or 0.0) - sum(spent.values())
    spent["unknown"] += max(0.0, remainder)
    restart_s = spent["restart"] / 1000
    lost = sum(max(0, restart.reached - restart.iteration + 1) for restart in run.restarts)
    hidden = [event for event in events if event.bucket != "unknown" and run.row_contains_evaluation]
    last = run.rows.last_iteration[-1] if len(run.rows) else 0
    return (
        _wall(run, pace, breakdown, spent),
        # What they cost is unknown if no iteration was repeated and the log does not show how long the start-ups took.
        Restarts(len(run.restarts), lost, restart_s if lost or restart_s or not run.restarts else None),
        Clock(
            row_end_s,
            tuple(events),
            event_end_s,
            hidden_s=sum(event.ms for event in hidden if event.iteration < last) / 1000,
            after_s=sum(event.ms for event in hidden if event.iteration >= last) / 1000,
        ),
    )


def _between_rows(run: Run, pace: Pace, breakdown: Breakdown) -> list[Event]:
    """What happened outside the rows' time, as far as known, in order."""
    if run.row_contains_evaluation:
        hidden = sorted(_hidden_events(run, pace, breakdown.costs), key=lambda event: event.iteration)
        at, spent_ms = [event.iteration for event in hidden], [0.0, *accumulate(event.ms for event in hidden)]

        def between_ms(last: int, first: int) -> float:
            return spent_ms[bisect_left(at, first)] - spent_ms[bisect_right(at, last)]

        gaps = gaps_between_rows(run, pace, between_ms)
        events = [*hidden, *(Event(iteration, "unknown", ms) for iteration, ms in gaps)]
    else:
        measured = [
            Event(span.iteration, bucket_of(span), span.ms, span.reason) for span in run.spans if is_event(span)
        ]
        events = [event for event in measured if event.bucket == "startup"]
        events += _measured_events(run, breakdown.costs, pace)
        events += [event for event in measured if event.bucket != "startup"]  # also waiting for the last checkpoint
    return sorted(events, key=lambda event: event.iteration)


def without_stall(timed: Evaluation | Checkpoint, costs: Costs, pace: Pace) -> tuple[float, float]:
    """The time of an evaluation or checkpoint that the trainer measured, and the stall in it if it took far longer than
    usual."""
    usual_ms = costs.evaluation_ms if isinstance(timed, Evaluation) else costs.checkpoint_ms
    ms = timed.ms or 0.0
    stall_ms = 0.0 if usual_ms is None or ms <= STALLED * usual_ms else ms - usual_ms
    return (ms - stall_ms, stall_ms) if stall_ms > pace.step_ms else (ms, 0.0)


def _measured_events(run: Run, costs: Costs, pace: Pace) -> Iterator[Event]:
    """The checkpoints and evaluations that a trainer measured. A stall before the first step counts as start-up."""
    measured: list[Evaluation | Checkpoint] = [*run.checkpoints, *run.evaluations]
    for each in measured:
        if each.ms is not None:
            own_ms, stall_ms = without_stall(each, costs, pace)
            if stall_ms:
                yield Event(each.iteration, "stall" if each.iteration > 0 else "startup", stall_ms)
            yield Event(each.iteration, "evaluation" if isinstance(each, Evaluation) else "checkpoint", own_ms)


def _hidden_events(run: Run, pace: Pace, costs: Costs) -> list[Event]:
    """Evaluations and saves that no row contains, including those after the last row, at the cost of those in rows."""
    if not len(run.rows):
        return []
    events: list[Event] = []
    for each in costs.counted:
        row = min(bisect_left(run.rows.last_iteration, each.iteration), len(run.rows) - 1)
        cost_ms = costs.hidden_ms(each, pace.baseline_ms[row])
        if each.row is None and cost_ms is not None:
            events.append(Event(each.iteration, "evaluation", each.count * cost_ms))
    if costs.checkpoint_ms is not None:
        saves = [save for save in run.checkpoints if save.row is None and run.rows.iteration[0] < save.iteration]
        events += [Event(save.iteration, "checkpoint", save.count * costs.checkpoint_ms) for save in saves]
    return events


def steps_after_rows(run: Run) -> int:
    """Steps after the last row that a later evaluation proves were done."""
    if not run.row_contains_evaluation or not len(run.rows):
        return 0
    last = run.rows.last_iteration[-1]
    return max(0, max((each.iteration for each in run.evaluations), default=last) - 1 - last)


def is_event(span: Span) -> bool:
    """Whether a span is wall-clock time that no row contains."""
    return span.phase in _OF_PHASE and not span.background


def bucket_of(span: Span) -> Bucket:
    return "suspended" if span.reason == "suspend" else _OF_PHASE[span.phase]


def _walk(
    run: Run, pace: Pace, breakdown: Breakdown, events: list[Event], spent: dict[Bucket, float]
) -> tuple[array[float], array[float]]:
    """Walk through the run in order and fill the buckets; return the clock in seconds at the end of each row and
    event."""
    rows, lost_ms = run.rows, _lost_ms(run, pace, breakdown.costs.evaluations.interval)
    known = pace.basis != "none"  # else only the rows themselves can be added up
    ends, event_ends = array("d"), array("d")
    clock_ms, training_ms = 0.0, 0.0

    def pass_events(until: float) -> None:
        nonlocal clock_ms
        while len(event_ends) < len(events) and (event := events[len(event_ends)]).iteration <= until:
            spent[event.bucket] += event.ms
            clock_ms += event.ms
            event_ends.append(clock_ms / 1000)

    last = rows.iteration[0] - pace.covers(0) if len(rows) else 0
    columns = zip(pace.kind, rows.last_iteration, rows.count, rows.sum_ms, pace.baseline_ms, strict=True)
    for index, (kind, end, count, row_ms, step_ms) in enumerate(columns):
        clock_ms += _spend_lost(lost_ms.get(index, ()), spent)
        pass_events(end)
        row_ms, count = row_ms * pace.covers(index), count * pace.covers(index)
        if known:
            # Add the iterations without a row. If groups overlap, an excess before makes up for a deficit after.
            row_ms += (end - last - count) * step_ms
        last = end
        clock_ms += row_ms
        training_ms += row_ms if kind == NORMAL else row_ms - _spend(breakdown.parts.get(index, {}), spent)
        ends.append(max(clock_ms / 1000, ends[-1] if ends else 0.0))  # a group may be shorter than the steps before it
    clock_ms += _spend_lost(lost_ms.get(len(rows), ()), spent)  # lost work after which no row remains
    after_ms = steps_after_rows(run) * pace.baseline_ms[-1] if known and len(rows) else 0.0
    spent["training"] += training_ms + after_ms
    clock_ms += after_ms
    pass_events(math.inf)
    return ends, event_ends


def _lost_ms(run: Run, pace: Pace, interval: int | None) -> dict[int, list[tuple[Bucket, float]]]:
    """The work lost at each restart and each rollback, by the first row after it."""
    lost: dict[int, list[tuple[Bucket, float]]] = {}
    for restart in run.restarts:
        unseen = max(0, restart.reached - restart.iteration + 1 - restart.lost.lines * run.rows_cover)
        around_ms = pace.baseline_ms[min(restart.row, len(run.rows) - 1)] if len(run.rows) else 0.0
        step_ms = (_lost_step_ms(restart, interval) or around_ms) if pace.basis != "none" else 0.0
        seen_ms = lost_rows_ms(restart) * run.rows_cover
        lost.setdefault(restart.row, []).append(("restart", seen_ms + unseen * step_ms))
    for rollback in run.rollbacks:
        lost.setdefault(rollback.row, []).append(("rollback", lost_rows_ms(rollback)))
    return lost


def _spend_lost(lost: Sequence[tuple[Bucket, float]], spent: dict[Bucket, float]) -> float:
    for bucket, ms in lost:
        spent[bucket] += ms
    return sum(ms for _, ms in lost)


def _lost_step_ms(restart: Restart, interval: int | None) -> float | None:
    """The step time in the process that was lost, which has its own speed; None if too few rows show it."""
    times = [row.ms for row in restart.lost if row.count == 1 and (not interval or row.iteration % interval)]
    if len(times) < ENOUGH_LOST:
        return None
    middle = median(times)
    plain = [ms for ms in times if ms <= SLOW_RATIO * middle]
    return sum(plain) / len(plain)


def lost_rows_ms(setback: Restart | Rollback) -> float:
    """The known part of the work that was repeated."""
    return sum(setback.lost.sum_ms) + setback.beside_ms


def _spend(parts: Mapping[Cause, float], spent: dict[Bucket, float]) -> float:
    """Put a row's excess into its buckets. All of a start-up counts as start-up, including its evaluation."""
    excess = sum(parts.values())
    if "compile" in parts:
        spent["startup"] += excess
    elif "restart" in parts:
        spent["restart"] += excess
    else:
        for cause, ms in parts.items():
            spent[_OF_CAUSE[cause]] += ms
    return excess


def _wall(run: Run, pace: Pace, breakdown: Breakdown, spent: Mapping[Bucket, float]) -> Wall:
    """The buckets in seconds; None if a part is included in another or unknown."""
    costs = breakdown.costs
    measured = run.wall_ms is not None
    no_cost = bool(costs.without_cost) or (costs.evaluations.count > 0 and costs.evaluation_ms is None)
    if not run.row_contains_evaluation:  # the one before the first step is not in the rows either
        no_cost = costs.evaluation_ms is None and any(each.ms is None for each in run.evaluations)
    saves_apart = any(save.row is None or save.row not in costs.cold_rows for save in run.checkpoints)
    contained = costs.evaluations.contains_checkpoint or costs.saves_in_doubt
    no_save_cost = saves_apart and not contained and (costs.checkpoint_ms is None or pace.basis == "none")
    timed: list[Evaluation | Checkpoint] = [*costs.counted, *run.checkpoints]
    in_rows = run.row_contains_evaluation and all(each.row is not None for each in timed)  # then none is missing
    without_cost = not measured and (((no_cost or no_save_cost) and not in_rows) or pace.basis == "none")
    total_ms = sum(spent.values())
    awake_ms = total_ms - spent["suspended"]
    overhead_ms = spent["evaluation"] + spent["checkpoint"]
    seconds = {f"{bucket}_s": ms / 1000 for bucket, ms in spent.items()}
    unknown = {"evaluation_s": no_cost, "checkpoint_s": no_save_cost or contained, "unknown_s": without_cost}
    return Wall(
        **{name: None if unknown.get(name) and not known_s else known_s for name, known_s in seconds.items()},
        total_s=total_ms / 1000,
        overhead_share=None if without_cost or no_cost or no_save_cost or not awake_ms else overhead_ms / awake_ms,
        goodput=spent["training"] / awake_ms if awake_ms else 0.0,
        measured=measured,
    )
