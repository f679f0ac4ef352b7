"""Folds rows as fold.py does, with numpy columns and a hundred times as fast; also folds mixtures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from nanopace.run import Checkpoint, Evaluation, Row
from nanopace.sources.bulk.nanogpt_lines import EvaluationBlock, Flags, Floats, Ints, RowBlock
from nanopace.sources.fold import LARGEST_GROUP, SLOW, Mixture

FEWEST_ALIKE = 8  # in a mixture, fewer rows of a kind stay single
A_CHANGE = 5  # this many consecutive slow (or fast) plain rows are not stalls: the step time has changed

# --- neighbours ------------------------------------------------------------------------------------------------------


def fold_block(rows: RowBlock, first_single: Flags) -> Iterator[tuple[int, Row]]:
    """Fold similar rows. Yields each with its line number. `first_single`: the row follows a line that is not a row."""
    if not len(rows.line):
        return
    starts = _block_starts(rows, first_single)
    begin = np.flatnonzero(starts)
    medians = _upper_medians(rows.ms, begin)
    slow = rows.ms > SLOW * np.repeat(medians, np.diff(begin, append=len(starts)))
    if slow.any():
        starts |= slow
        starts[1:] |= slow[:-1]
        begin = np.flatnonzero(starts)
        medians = _upper_medians(rows.ms, begin)
    count = np.diff(begin, append=len(starts))
    last = begin + count - 1
    columns = (
        rows.line[begin],
        rows.iteration[begin],
        medians,
        np.add.reduceat(rows.loss, begin) / count,
        rows.mfu[last],
        count,
        rows.iteration[last],
        np.add.reduceat(rows.ms, begin),
    )
    for line, first, ms, loss, mfu, n, final, total in zip(*(column.tolist() for column in columns), strict=True):
        yield line, Row(first, ms, loss, None if mfu != mfu else mfu, n, final, total)


def _block_starts(rows: RowBlock, first_single: Flags) -> Flags:
    """Where a stretch of evenly spaced rows begins, or a large enough part of one."""
    starts = first_single.copy()
    starts[0] = True
    second = np.zeros_like(starts)
    second[1:] = first_single[:-1]
    step = np.diff(rows.iteration, prepend=rows.iteration[0])
    uneven = np.zeros_like(starts)
    uneven[2:] = step[2:] != step[1:-1]
    uneven[1:] &= ~starts[:-1]  # the second row of a stretch has no step before it
    uneven[1:] |= step[1:] <= 0
    starts |= second | uneven
    begin = np.flatnonzero(starts)
    place = np.arange(len(starts)) - np.repeat(begin, np.diff(begin, append=len(starts)))
    starts |= place % LARGEST_GROUP == 0
    return starts


def _upper_medians(values: Floats, begin: Ints) -> Floats:
    """The upper median of each block of values; `begin` is where the blocks begin."""
    count = np.diff(begin, append=len(values))
    medians = values[begin]
    several = np.flatnonzero(count > 1)
    if len(several):
        place = np.arange(count[several].max())
        table = values.take(begin[several, None] + place, mode="clip")
        table[place >= count[several, None]] = np.inf
        table.sort(axis=1)
        medians[several] = table[np.arange(len(several)), count[several] // 2]
    return medians


# --- mixtures --------------------------------------------------------------------------------------------------------


class Stretch(NamedTuple):
    """A part of a log with rising iterations and evaluations between the rows."""

    rows: RowBlock
    evaluations: EvaluationBlock
    saves: Flags  # by evaluation
    row: Ints  # by evaluation: the row that follows it


class _Part(NamedTuple):
    """Similar rows, and the evaluations inside them, as indices."""

    rows: Ints
    evaluations: Ints
    saves: bool


def fold_stretch(stretch: Stretch) -> Mixture | None:
    """Fold similar rows. Iterations rise, and an evaluation with a row's iteration is inside that row.

    None if the step time changes for good: one group cannot represent both, and neighbours show where it happened.
    """
    rows, evaluations = stretch.rows, stretch.evaluations
    inside = rows.iteration[stretch.row] == evaluations.iteration
    kind = np.zeros(len(rows.line), np.int8)
    kind[stretch.row[inside]] = 1 + stretch.saves[inside]
    if _changes(rows.ms[kind == 0]):
        return None
    of_row = np.zeros(len(rows.line), np.int64)
    of_row[stretch.row[inside]] = np.flatnonzero(inside)
    parts = [
        _Part(part, of_row[part] if number else part[:0], number == 2)
        for number in range(3)
        for part in _alike(rows.ms, np.flatnonzero(kind == number))
    ]
    parts.sort(key=lambda part: int(part.rows[-1]))
    folded = [
        (_evaluation(evaluations, part.evaluations, row), part.saves)
        for row, part in enumerate(parts)
        if len(part.evaluations)
    ]
    if not inside.all():
        for saves in (False, True):
            hidden = np.flatnonzero(~inside & (stretch.saves == saves))
            apart = [hidden] if len(hidden) >= FEWEST_ALIKE else list(hidden[:, None])
            folded += [(_evaluation(evaluations, part, None), saves) for part in apart]
    return Mixture(
        [_row(rows, part.rows) for part in parts],
        [each for each, _ in folded],
        [_checkpoint(each) for each, saves in folded if saves],
    )


def _changes(ms: Floats) -> bool:
    if len(ms) < FEWEST_ALIKE:
        return False
    usual = _upper_median(ms)
    other = np.flatnonzero((ms > SLOW * usual) | (SLOW * ms < usual))
    return bool((other[A_CHANGE - 1 :] - other[: 1 - A_CHANGE] == A_CHANGE - 1).any())


def _upper_median(values: Floats) -> float:
    """Like `medians.upper_median`, for an array: sorting it as a list would take ten times as long."""
    middle = len(values) // 2
    return float(np.partition(values, middle)[middle])


def _alike(ms: Floats, rows: Ints) -> list[Ints]:
    if len(rows) < FEWEST_ALIKE:
        return list(rows[:, None])
    times = ms[rows]
    slow = times > SLOW * _upper_median(times)
    return [rows[~slow], *rows[slow, None]] if slow.any() else [rows]


def _row(rows: RowBlock, part: Ints) -> Row:
    first, last = part[0], part[-1]
    mfu = float(rows.mfu[last])
    known_mfu = None if mfu != mfu else mfu
    times = rows.ms[part]
    return Row(
        iteration=int(rows.iteration[first]),
        ms=_upper_median(times),
        loss=float(rows.loss[part].sum()) / len(part),
        mfu=known_mfu,
        count=len(part),
        last_iteration=int(rows.iteration[last]),
        sum_ms=float(times.sum()),
    )


def _evaluation(evaluations: EvaluationBlock, part: Ints, row: int | None) -> Evaluation:
    last = part[-1]
    values = (int(evaluations.iteration[last]), float(evaluations.train[last]), float(evaluations.val[last]))
    if len(part) == 1:
        return Evaluation(*values, row=row)
    lowest = part[evaluations.val[part].argmin()]
    return Evaluation(
        *values,
        row=row,
        count=len(part),
        first_iteration=int(evaluations.iteration[part[0]]),
        lowest=(int(evaluations.iteration[lowest]), float(evaluations.val[lowest])),
    )


def _checkpoint(evaluation: Evaluation) -> Checkpoint:
    """The checkpoint of one or several evaluations that saved; its path is dropped."""
    return Checkpoint(
        evaluation.iteration,
        row=evaluation.row,
        count=evaluation.count,
        first_iteration=evaluation.first_iteration,
    )
