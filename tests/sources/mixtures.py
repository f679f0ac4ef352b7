"""Mixtures folded without numpy, which numpy_fold.py must agree with, and a way to pass it rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

import numpy as np

from nanopace.medians import upper_median
from nanopace.record import replace
from nanopace.run import Checkpoint, Evaluation, Row
from nanopace.sources.bulk.nanogpt_lines import EvaluationBlock, RowBlock
from nanopace.sources.bulk.numpy_fold import A_CHANGE, FEWEST_ALIKE, Stretch, fold_stretch
from nanopace.sources.fold import SLOW, Mixture

Fold = Callable[[Sequence[Row], Sequence[Evaluation], Collection[int]], Mixture | None]


def fold_with_numpy(rows: Sequence[Row], evaluations: Sequence[Evaluation], saves: Collection[int]) -> Mixture | None:
    row_columns = [[getattr(row, name) for row in rows] for name in ("iteration", "ms", "loss", "mfu")]
    evaluation_columns = [[getattr(each, name) for each in evaluations] for name in ("iteration", "train", "val")]
    at = [each.iteration for each in evaluations]
    return fold_stretch(
        Stretch(
            RowBlock(np.arange(len(rows)), *map(np.array, row_columns)),
            EvaluationBlock(np.arange(len(evaluations)), *map(np.array, evaluation_columns)),
            np.array([iteration in saves for iteration in at], np.bool_),
            np.searchsorted(row_columns[0], at),
        )
    )


def fold_mixture(rows: Sequence[Row], evaluations: Sequence[Evaluation], saves: Collection[int]) -> Mixture | None:
    """Fold similar rows. Iterations rise, and an evaluation of a row's iteration is inside that row.

    `saves` are the iterations of evaluations that wrote a checkpoint. None if the step time changes for good: one group
    cannot represent both, and neighbours show where it happened.
    """
    evaluated = {each.iteration: each for each in evaluations}
    kinds: dict[tuple[bool, bool], list[Row]] = {}
    for row in rows:
        kinds.setdefault((row.iteration in evaluated, row.iteration in saves), []).append(row)
    if _changes(kinds.get((False, False), [])):
        return None
    groups = sorted(
        (group for alike in kinds.values() for group in _alike(alike)), key=lambda group: group[-1].iteration
    )
    folded: list[tuple[Evaluation, bool]] = []
    for index, group in enumerate(groups):
        if group[0].iteration in evaluated:
            inside = [evaluated[row.iteration] for row in group]
            folded.append((replace(_evaluation(inside), row=index), group[0].iteration in saves))
    between = evaluated.keys() - {row.iteration for row in rows}
    for saved in (False, True):
        hidden = [evaluated[iteration] for iteration in sorted(between) if (iteration in saves) is saved]
        parts = [hidden] if len(hidden) >= FEWEST_ALIKE else [[each] for each in hidden]
        folded += [(_evaluation(part), saved) for part in parts]
    return Mixture(
        [_row(group) for group in groups],
        [each for each, _ in folded],
        [_checkpoint(each) for each, saved in folded if saved],
    )


def _changes(rows: Sequence[Row]) -> bool:
    if len(rows) < FEWEST_ALIKE:
        return False
    usual = upper_median([row.ms for row in rows])
    other = [row.ms > SLOW * usual or SLOW * row.ms < usual for row in rows]
    return any(all(other[at : at + A_CHANGE]) for at in range(len(rows) - A_CHANGE + 1))


def _alike(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    """Rows of one kind: similar ones as one group, slow ones and the few of a rare kind individually."""
    limit = SLOW * upper_median([row.ms for row in rows]) if len(rows) >= FEWEST_ALIKE else 0.0
    alike = [row for row in rows if row.ms <= limit]
    if alike:
        yield alike
    for row in rows:
        if row.ms > limit:
            yield [row]


def _evaluation(group: Sequence[Evaluation]) -> Evaluation:
    """The last evaluation of a group stands for all of it."""
    if len(group) == 1:
        return group[0]
    lowest = min((each.val, each.iteration) for each in group if each.val is not None)
    return replace(group[-1], count=len(group), first_iteration=group[0].iteration, lowest=lowest[::-1])


def _row(group: Sequence[Row]) -> Row:
    if len(group) == 1:
        return group[0]
    return Row(
        iteration=group[0].iteration,
        last_iteration=group[-1].iteration,
        count=len(group),
        ms=upper_median([row.ms for row in group]),
        sum_ms=sum(row.ms for row in group),
        loss=sum(row.loss or 0.0 for row in group) / len(group),
        mfu=group[-1].mfu,
    )


def _checkpoint(saved: Evaluation) -> Checkpoint:
    return Checkpoint(saved.iteration, row=saved.row, count=saved.count, first_iteration=saved.first_iteration)
