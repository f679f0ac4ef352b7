"""Which evaluations belong to the run itself, and which rows contain a start-up instead."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from nanopace.diagnosis.time.rows import SLOW, Pace
from nanopace.run import Evaluation, Run

# Facts that a trainer prints when it starts.
HEAD = ("parameters", "tokens_per_iteration", "init_from", "compile", "n_layer")


def cold_rows(run: Run, pace: Pace) -> frozenset[int]:
    """The first rows of processes that contain more than a step. If the log lacks its head, its first row is not one of
    them."""
    first = frozenset(row for row in pace.marks.first if pace.kind[row] == SLOW or row in pace.marks.evaluation)
    return first if not len(run.rows) or _begins(run, pace) or _has_head(run) else first - {0}


def _begins(run: Run, pace: Pace) -> bool:
    """Whether the first row contains the first iteration: 0, or, if the trainer counts from 1, everything since the
    start."""
    from_start = run.rows_cover_shown_by == "trainer" and run.rows.iteration[0] <= pace.covers(0)
    return run.rows.iteration[0] == 0 or from_start


def _has_head(run: Run) -> bool:
    """Whether the log contains what a trainer prints before it trains."""
    return not run.row_contains_evaluation or any(
        (fact := run.facts.get(name)) is not None and fact.origin == "log" for name in HEAD
    )


def counted_evaluations(run: Run, cold: frozenset[int]) -> tuple[Evaluation, ...]:
    """One evaluation per iteration, after training began. Benchmark scores do not count."""
    by_iteration = {each.iteration: each for each in reversed(run.evaluations) if each.metric != "core"}
    evaluations = [by_iteration[iteration] for iteration in sorted(by_iteration) if iteration > 0]
    if not run.row_contains_evaluation or not len(run.rows):
        return tuple(evaluations)
    first = run.rows.iteration[0]
    return tuple(each for each in evaluations if each.row not in cold and first <= each.iteration)


def evaluation_interval(run: Run) -> int | None:
    """The knob if known, else the most frequent distance between evaluations."""
    knob = run.number("eval_interval")
    if knob is not None and knob > 0:
        return int(knob)
    iterations = sorted({evaluation.iteration for evaluation in run.evaluations})
    return most_frequent(after - before for before, after in pairwise(iterations))


def log_interval(run: Run) -> int | None:
    """The knob if known, else the most frequent distance between rows."""
    knob = run.number("log_interval")
    if knob is not None and knob > 0:
        return int(knob)
    some = run.logged[:10_000]
    return most_frequent(start - end for end, start in zip(some.last_iteration, some.iteration[1:], strict=False))


def most_frequent(distances: Iterable[int]) -> int | None:
    """The most frequent distance; the smaller one in a tie."""
    seen: dict[int, int] = {}
    for distance in distances:
        seen[distance] = seen.get(distance, 0) + 1
    return min(seen, key=lambda distance: (-seen[distance], distance)) if seen else None
