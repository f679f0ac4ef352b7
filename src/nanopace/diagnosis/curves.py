"""The run for charts: few enough points for a page, with as many slow rows as possible."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import TypeVar

from nanopace.diagnosis.result import Cause, Curves, Mfu
from nanopace.diagnosis.time.rows import NORMAL, SLOW, UNEVEN, Pace
from nanopace.diagnosis.time.slow_rows import Breakdown
from nanopace.diagnosis.time.wall_time import Clock
from nanopace.record import replace
from nanopace.run import Evaluation, Rows, Run

Item = TypeVar("Item")

MOST_ROWS = 2000  # normal ones
STRETCHES = 300  # of a longer run: the extremes of each (up to four) are kept, the rest is evenly spaced
MOST_OF_A_CAUSE = 1000  # slow ones, in addition
MOST_EVALUATIONS = 2000
MOST_SAVES = 2000


def draw(run: Run, pace: Pace, breakdown: Breakdown, mfu: Mfu, clock: Clock) -> Curves:
    """Thin out the rows and put each point on the clock."""
    rows = run.rows
    chosen = _chosen(run, pace, breakdown)
    evaluations = _shown_evaluations(run)
    saves = _saves(run, clock)
    measured = mfu.printed_last is not None  # only zeros means not measured
    return replace(
        _without_times(run, rows, chosen, evaluations, breakdown.costs.saved),
        row_ms=tuple(rows.ms[index] for index in chosen),
        row_cause=tuple(_main_cause(breakdown.parts[index]) if pace.kind[index] == SLOW else None for index in chosen),
        row_mfu_printed=tuple(_known(rows.mfu[index]) if measured else None for index in chosen),
        row_mfu_true=tuple(_true_mfu(run, pace, mfu, index) for index in chosen),
        row_seconds=tuple(clock.row_end_s[index] for index in chosen),
        eval_seconds=tuple(eval_seconds(run, pace, clock, evaluations)),
        save_ms=tuple(ms for ms, _ in saves),
        save_seconds=tuple(end_s for _, end_s in saves),
    )


def draw_untimed(run: Run, saved: frozenset[int]) -> Curves:
    """The losses of a log without times. Parallel tuples have equal lengths, with None for unknowns."""
    rows = run.untimed_rows
    chosen = outlined(range(len(rows)), (rows.loss,))
    evaluations = _shown_evaluations(run)
    unknown = (None,) * len(chosen)
    return replace(
        _without_times(run, rows, chosen, evaluations, saved),
        row_ms=unknown,
        row_cause=unknown,
        row_mfu_printed=unknown,
        row_mfu_true=unknown,
        row_seconds=unknown,
        eval_seconds=(None,) * len(evaluations),
    )


def _shown_evaluations(run: Run) -> Sequence[Evaluation]:
    return _spread([each for each in run.evaluations if each.metric != "core"], MOST_EVALUATIONS)


def _without_times(
    run: Run, rows: Rows, chosen: Sequence[int], evaluations: Sequence[Evaluation], saved: frozenset[int]
) -> Curves:
    """The losses of rows and evaluations, and the readings of the card's sensors, which are already thinned out."""
    readings = run.gpu_readings
    return Curves(
        row_iteration=tuple(rows.last_iteration[index] for index in chosen),
        row_loss=tuple(_known(rows.loss[index]) for index in chosen),
        eval_iteration=tuple(each.iteration for each in evaluations),
        eval_train=tuple(each.train for each in evaluations),
        eval_train_steps=tuple(each.train_steps for each in evaluations),
        eval_val=tuple(each.val for each in evaluations),
        eval_saved=tuple(each.iteration in saved for each in evaluations),
        eval_bits=tuple(each.bits_per_byte for each in evaluations),
        eval_val_error=tuple(each.val_error for each in evaluations),
        gpu_seconds=tuple(each.seconds for each in readings),
        gpu_mhz=tuple(each.sm_mhz for each in readings),
        gpu_watts=tuple(each.watts for each in readings),
        gpu_celsius=tuple(each.celsius for each in readings),
        gpu_memory_gb=tuple(each.memory_used_gb for each in readings),
        gpu_throttle=tuple(each.throttle for each in readings),
    )


def _chosen(run: Run, pace: Pace, breakdown: Breakdown) -> list[int]:
    """The rows to show: slow ones of every cause from the whole run, and an outline of the others."""
    by_cause: dict[Cause, list[int]] = {}
    for index, kind in enumerate(pace.kind):
        if kind == SLOW:
            by_cause.setdefault(_main_cause(breakdown.parts[index]), []).append(index)
    slow = [index for rows in by_cause.values() for index in _largest(rows, breakdown)]
    others = [index for index, kind in enumerate(pace.kind) if kind != SLOW]
    return sorted([*slow, *outlined(others, (run.rows.ms, run.rows.loss))])


def outlined(rows: Sequence[int], columns: Sequence[Sequence[float]]) -> Sequence[int]:
    """At most MOST_ROWS rows: the lowest and highest value of each column in every stretch, so that no spike is lost,
    plus evenly spaced ones."""
    if len(rows) <= MOST_ROWS:
        return rows
    kept: set[int] = set()
    for begin, end in pairwise(part * len(rows) // STRETCHES for part in range(STRETCHES + 1)):
        for column in columns:
            known = [index for index in rows[begin:end] if not math.isnan(column[index])]
            if known:
                kept |= {min(known, key=column.__getitem__), max(known, key=column.__getitem__)}
    return sorted({*kept, *_spread(rows, MOST_ROWS - len(kept))})


def _largest(rows: Sequence[int], breakdown: Breakdown) -> Sequence[int]:
    """At most MOST_OF_A_CAUSE rows of one cause: the longest among neighbours, so that no part of the run looks free of
    it."""
    if len(rows) <= MOST_OF_A_CAUSE:
        return rows
    bounds = [part * len(rows) // MOST_OF_A_CAUSE for part in range(MOST_OF_A_CAUSE + 1)]
    return [
        max(rows[begin:end], key=lambda index: sum(breakdown.parts[index].values())) for begin, end in pairwise(bounds)
    ]


def _spread(items: Sequence[Item], most: int) -> Sequence[Item]:
    """At most `most` items, evenly spaced, including the first and the last."""
    if len(items) <= most:
        return items
    return [items[position * (len(items) - 1) // (most - 1)] for position in range(most)]


def _saves(run: Run, clock: Clock) -> list[tuple[float, float]]:
    """The longest measured waits for checkpoints: milliseconds, and the end on the clock."""
    if run.row_contains_evaluation:
        return []  # contained in the rows, or assumed to take as long as the others
    timed = zip(clock.events, clock.event_end_s, strict=True)
    waits = [(event.ms, end_s) for event, end_s in timed if event.bucket == "checkpoint" and event.ms > 0]
    return sorted(sorted(waits, reverse=True)[:MOST_SAVES], key=lambda wait: wait[1])


def _main_cause(parts: Mapping[Cause, float]) -> Cause:
    return max(parts, key=lambda cause: parts[cause])


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def _true_mfu(run: Run, pace: Pace, mfu: Mfu, index: int) -> float | None:
    """The mfu that the trainer would have printed for this row's step alone."""
    plain = pace.kind[index] in (NORMAL, UNEVEN)
    step_ms = run.rows.ms[index] if plain else pace.baseline_ms[index]
    return mfu.steady_printed * pace.step_ms / step_ms if mfu.steady_printed is not None and step_ms else None


def eval_seconds(run: Run, pace: Pace, clock: Clock, evaluations: Sequence[Evaluation]) -> Iterator[float]:
    """The wall clock at the end of each evaluation, which comes before the step of the same iteration."""
    rows, ends = run.rows, clock.row_end_s
    at = [event.iteration for event in clock.events]
    evaluated = () if run.row_contains_evaluation else enumerate(clock.events)  # their order is known
    own = {event.iteration: index for index, event in evaluated if event.bucket == "evaluation"}
    spent_s = [0.0, *accumulate(event.ms / 1000 for event in clock.events)]
    for each in evaluations:
        if each.row is not None:
            yield ends[each.row] - pace.baseline_ms[each.row] / 1000
            continue
        end = own.get(each.iteration, bisect_right(at, each.iteration) - 1)
        before = bisect_left(rows.last_iteration, each.iteration) - 1  # the last row that ended earlier
        if before < 0:
            yield spent_s[end + 1]  # nothing but the start-up came before
            continue
        last, step_s = rows.last_iteration[before], pace.baseline_ms[before] / 1000
        events_s = spent_s[end + 1] - spent_s[bisect_right(at, last)]
        yield ends[before] + (each.iteration - 1 - last) * step_s + events_s
