"""What counts as an evaluation of the run itself, and which rows hold a start instead."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from nanopace.diagnosis.time.rows import SLOW, Pace
from nanopace.run import Evaluation, Run

HEAD = ("parameters", "tokens_per_iteration", "init_from", "compile")  # facts that a trainer prints at its start


def cold_rows(run: Run, pace: Pace) -> frozenset[int]:
    """First rows of processes that hold more than a step. The first row of a log without its head is no such row."""
    first = frozenset(row for row in pace.marks.first if pace.kind[row] == SLOW or row in pace.marks.evaluation)
    return first if not len(run.rows) or _begins(run, pace) or _has_head(run) else first - {0}


def _begins(run: Run, pace: Pace) -> bool:
    """Whether the first row holds the first iteration: 0, or, of those who count from 1, all since the start."""
    from_start = run.rows_cover_shown_by == "trainer" and run.rows.iteration[0] <= pace.covers(0)
    return run.rows.iteration[0] == 0 or from_start


def _has_head(run: Run) -> bool:
    """Whether the log has what a trainer prints before it trains."""
    return not run.row_contains_evaluation or any(
        (fact := run.facts.get(name)) is not None and fact.origin == "log" for name in HEAD
    )


def counted_evaluations(run: Run, cold: frozenset[int]) -> tuple[Evaluation, ...]:
    """One evaluation per iteration, of those after training began. Benchmark scores do not count."""
    by_iteration = {each.iteration: each for each in reversed(run.evaluations) if each.metric != "core"}
    evaluations = [by_iteration[iteration] for iteration in sorted(by_iteration) if iteration > 0]
    if not run.row_contains_evaluation or not len(run.rows):
        return tuple(evaluations)
    first = run.rows.iteration[0]
    return tuple(each for each in evaluations if each.row not in cold and first <= each.iteration)


def evaluation_interval(run: Run) -> int | None:
    """The knob where it is known, else the most frequent distance."""
    knob = run.number("eval_interval")
    if knob is not None and knob > 0:
        return int(knob)
    iterations = sorted({evaluation.iteration for evaluation in run.evaluations})
    return most_frequent(after - before for before, after in pairwise(iterations))


def log_interval(run: Run) -> int | None:
    """The knob where it is known, else the most frequent distance of the rows."""
    knob = run.number("log_interval")
    if knob is not None and knob > 0:
        return int(knob)
    some = run.logged[:10_000]
    return most_frequent(start - end for end, start in zip(some.last_iteration, some.iteration[1:], strict=False))


def most_frequent(distances: Iterable[int]) -> int | None:
    """The distance that occurs most often, the smaller one of two that do."""
    seen: dict[int, int] = {}
    for distance in distances:
        seen[distance] = seen.get(distance, 0) + 1
    return min(seen, key=lambda distance: (-seen[distance], distance)) if seen else None
