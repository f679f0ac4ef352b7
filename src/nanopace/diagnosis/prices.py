"""What one evaluation costs, and what one checkpoint.

A log that evaluates without always saving is a natural experiment: the rows with a save against the rows without.
Where there is none, the forward-pass model bounds the checkpoint; where the config is unknown too, it stays unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from nanopace.diagnosis.medians import median, typical
from nanopace.diagnosis.result import Basis, Checkpoints, Evaluations
from nanopace.diagnosis.rows import SLOW, Pace, evaluation_in_steps
from nanopace.run import Evaluation, Run

# The smallest share of a micro-step that we have seen a forward pass take. What an evaluation row costs beyond
# 2 x eval_iters such passes may be the checkpoint, and cannot be more of it.
LEAST_FORWARD_SHARE = 0.30

Costs = tuple[float, int]  # the excess of a row, and how many rows it stands for

LIKE_THE_OTHERS = 1.25  # a first row that costs no more than this times the other evaluations holds no start-up


class Prices(NamedTuple):
    """The two figures, how well they are known, and the evaluations that they were taken from."""

    evaluations: Evaluations
    checkpoints: Checkpoints
    counted: tuple[Evaluation, ...]  # one per iteration, without those that belong to a start-up
    saved: frozenset[int]  # iterations with a checkpoint
    cold_rows: frozenset[int]  # first rows of a process that hold its start-up
    evaluation_ms: float | None  # the best estimate for an evaluation that cannot be seen
    checkpoint_ms: float | None  # the same; None also where it is part of evaluation_ms


def find_prices(run: Run, pace: Pace) -> Prices:
    """Count the evaluations and checkpoints of a run, and price one of each."""
    cold = _cold_rows(run, pace)
    counted = _counted(run, cold)
    saved = frozenset(checkpoint.iteration for checkpoint in run.checkpoints)
    return (
        _outside(run, counted, saved, cold)
        if not run.row_contains_evaluation
        else _inside(run, pace, counted, saved, cold)
    )


def _inside(
    run: Run, pace: Pace, counted: tuple[Evaluation, ...], saved: frozenset[int], cold: frozenset[int]
) -> Prices:
    """Where a row's time contains its evaluation and its save."""
    marks = pace.marks
    visible = [evaluation.row for evaluation in counted if evaluation.row is not None]
    with_save = [pace.typical_excess_ms(run.rows, row) for row in visible if row in marks.checkpoint]
    without = [pace.typical_excess_ms(run.rows, row) for row in visible if row not in marks.checkpoint]
    only_save = [pace.typical_excess_ms(run.rows, row) for row in marks.checkpoint - marks.evaluation - cold]

    each_ms, checkpoint_ms, basis = _experiment(with_save, without, only_save)
    in_steps = evaluation_in_steps(run)
    predicted = in_steps * pace.step.median_ms if in_steps is not None and counted else None
    contains = bool(with_save) and basis != "measured" and not without
    if contains and in_steps is not None and each_ms is not None:
        least = in_steps * pace.step.median_ms * LEAST_FORWARD_SHARE * 3
        if each_ms > least:  # else the evaluation is quicker than the model allows, and the model bounds nothing
            checkpoint_ms, basis = each_ms - least, "upper_bound"
    if pace.basis == "none":
        each_ms = None
    return Prices(
        evaluations=Evaluations(
            count=sum(each.count for each in counted),
            visible=sum(each.count for each in counted if each.row is not None),
            hidden=sum(each.count for each in counted if each.row is None),
            each_ms=each_ms,
            interval=_interval(run),
            contains_checkpoint=contains,
            predicted_ms=predicted,
        ),
        checkpoints=Checkpoints(
            count=sum(save.count for save in run.checkpoints),
            each_ms=checkpoint_ms,
            basis=basis,
            saved_rows=sum(count for _, count in with_save),
            unsaved_rows=sum(count for _, count in without),
        ),
        counted=counted,
        saved=saved,
        cold_rows=cold,
        evaluation_ms=each_ms if each_ms is not None or pace.basis == "none" else predicted,
        checkpoint_ms=checkpoint_ms if basis == "measured" else None,
    )


def _experiment(
    with_save: Sequence[Costs], without: Sequence[Costs], only_save: Sequence[Costs]
) -> tuple[float | None, float | None, Basis]:
    """One evaluation, one checkpoint and how it is known, from the excess of the rows that hold one or both."""
    if without and with_save:
        return typical(without), max(0.0, typical(with_save) - typical(without)), "measured"
    if only_save:
        checkpoint = typical(only_save)
        spike = typical(with_save) - checkpoint if with_save else typical(without) if without else None
        return None if spike is None else max(0.0, spike), checkpoint, "measured"
    spikes = without or with_save
    return typical(spikes) if spikes else None, None, "unknown"


def _outside(run: Run, counted: tuple[Evaluation, ...], saved: frozenset[int], cold: frozenset[int]) -> Prices:
    """Where the trainer's clock stands still meanwhile: the cost is known only if the trainer measured it apart."""
    times = [evaluation.ms for evaluation in counted if evaluation.ms is not None]
    stalls = [checkpoint.ms for checkpoint in run.checkpoints if checkpoint.ms is not None]
    background = [checkpoint.background_ms for checkpoint in run.checkpoints if checkpoint.background_ms is not None]
    each = median(times) if times else None
    checkpoint = median(stalls) if stalls else None
    return Prices(
        evaluations=Evaluations(
            count=len(counted),
            visible=len(times),
            hidden=len(counted) - len(times),
            each_ms=each,
            interval=_interval(run),
            contains_checkpoint=False,
            predicted_ms=None,
        ),
        checkpoints=Checkpoints(
            count=len(run.checkpoints),
            each_ms=checkpoint,
            basis="unknown" if checkpoint is None else "measured",
            saved_rows=0,
            unsaved_rows=0,
            background_ms=median(background) if background else None,
        ),
        counted=counted,
        saved=saved,
        cold_rows=cold,
        evaluation_ms=each,
        checkpoint_ms=checkpoint,
    )


def _cold_rows(run: Run, pace: Pace) -> frozenset[int]:
    """First rows of processes that took longer than a step. A log without its head begins with one like the others."""
    first, marks = frozenset(row for row in pace.marks.first if pace.kind[row] == SLOW), pace.marks
    if not first or run.rows.iteration[0] == 0 or 0 not in marks.evaluation:
        return first
    others = [pace.typical_excess_ms(run.rows, row) for row in marks.evaluation - first]
    like_others = others and pace.excess_ms(run.rows, 0) <= LIKE_THE_OTHERS * typical(others)
    return first - {0} if like_others else first


def _counted(run: Run, cold: frozenset[int]) -> tuple[Evaluation, ...]:
    """One evaluation per iteration: those within the rows' clock and not part of a start-up."""
    by_iteration = {evaluation.iteration: evaluation for evaluation in reversed(run.evaluations)}
    evaluations = tuple(by_iteration[iteration] for iteration in sorted(by_iteration))
    if not run.row_contains_evaluation or not len(run.rows):
        return evaluations
    first, last = run.rows.iteration[0], run.rows.last_iteration[-1]
    return tuple(
        evaluation
        for evaluation in evaluations
        if evaluation.row not in cold and evaluation.iteration > 0 and first <= evaluation.iteration <= last
    )


def _interval(run: Run) -> int | None:
    """The knob where it is known, else the most frequent distance."""
    knob = run.number("eval_interval")
    if knob and knob > 0:
        return int(knob)
    iterations = sorted({evaluation.iteration for evaluation in run.evaluations})
    return most_frequent(after - before for before, after in pairwise(iterations))


def most_frequent(distances: Iterable[int]) -> int | None:
    """The distance that occurs most often, the smaller one of two that do."""
    seen: dict[int, int] = {}
    for distance in distances:
        seen[distance] = seen.get(distance, 0) + 1
    return min(seen, key=lambda distance: (-seen[distance], distance)) if seen else None
