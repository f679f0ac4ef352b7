"""Rows that stand for many: a log of twenty million rows as a hundred thousand, and nothing worth knowing lost.

Rows that are alike become one `Row` with a count, their median time, the sum of their times, their mean loss and the
mfu that the last of them printed. What stays single: slow rows, and the first row after any line that is neither a row
nor one of many evaluations (the header of a process, say).

Where evaluations are few, neighbours are folded, and a group never spans an evaluation (`fold_rows`). Where they are
many, that would leave most rows single: there, like is folded with like over a whole stretch of the log, the plain
rows, those with an evaluation, and those that save a checkpoint too: a `Mixture`.

bulk/numpy_fold.py folds both ways with numpy. Mixtures have only that one: they are in long logs alone.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from nanopace.medians import upper_median
from nanopace.record import replace
from nanopace.run import Checkpoint, Evaluation, Row, Rows

LARGEST_GROUP = 256
_LONGEST_PART = 32 * LARGEST_GROUP  # that is folded at a time
SLOW = 1.2  # times the median of the rows around it, or of its like


class Mixture(NamedTuple):
    """A stretch of a log, folded. `row` of an evaluation or a checkpoint is an index into these rows."""

    rows: Sequence[Row]
    evaluations: Sequence[Evaluation]
    checkpoints: Sequence[Checkpoint]


# --- neighbours ------------------------------------------------------------------------------------------------------


def fold_rows(rows: Sequence[Row], first_single: bool) -> list[Row]:
    """Consecutive rows of a log, no other line between them, as fewer rows."""
    folded: list[Row] = []
    for block in _blocks(rows, first_single):
        limit = SLOW * upper_median([row.ms for row in block])
        alike: list[Row] = []
        for row in block:
            if row.ms <= limit:
                alike.append(row)
                continue
            if alike:
                folded.append(_group(alike))
            folded.append(row)
            alike = []
        if alike:
            folded.append(_group(alike))
    return folded


def fold_behind(rows: Rows, start: int, breaks: Collection[int]) -> dict[int, int]:
    """Fold the rows of a run from one on, in place. Those at `breaks` stay single, and no group spans one of them.

    Gives where these rows, and what would follow the last, are now.
    """
    length = len(rows)
    tail = rows[start:]
    rows.cut(start)
    places: dict[int, int] = {}
    parts = {*range(start, length, _LONGEST_PART), *(each for each in breaks if start <= each < length), length}
    for begin, end in pairwise(sorted(parts)):
        places[begin] = len(rows)
        part = tail[begin - start : end - start]
        for row in fold_rows(list(part), begin in breaks) if max(part.count) == 1 else part:
            rows.append(row)
    places[length] = len(rows)
    return places


def _blocks(rows: Sequence[Row], first_single: bool) -> Iterator[Sequence[Row]]:
    """Stretches of evenly spaced rows, at most LARGEST_GROUP of them."""
    start = 0
    for index in range(1, len(rows)):
        step = rows[index].iteration - rows[index - 1].iteration
        if index == 1:
            uneven = first_single or step <= 0
        else:
            uneven = step <= 0 or step != rows[index - 1].iteration - rows[index - 2].iteration
        if uneven or index - start == LARGEST_GROUP:
            yield rows[start:index]
            start = index
    if rows:
        yield rows[start:]


def _group(rows: Sequence[Row]) -> Row:
    if len(rows) == 1:
        return rows[0]
    return Row(
        iteration=rows[0].iteration,
        last_iteration=rows[-1].iteration,
        count=len(rows),
        ms=upper_median([row.ms for row in rows]),
        sum_ms=sum(row.ms for row in rows),
        loss=sum(row.loss or 0.0 for row in rows) / len(rows),
        mfu=rows[-1].mfu,
    )


# --- dividing --------------------------------------------------------------------------------------------------------


def take_rows(rows: Rows, iteration: int) -> tuple[Rows, dict[int, int]]:
    """Take out the rows of an iteration and of later ones. Groups that span it are divided in proportion.

    Gives what is taken out, and where the rests of the divided groups are now, by where the groups were.
    """
    cut = bisect_left(rows.last_iteration, iteration)
    taken = rows[cut:]
    rows.cut(cut)
    if not len(taken) or min(taken.iteration) >= iteration:
        return taken, {}
    rests: list[tuple[Row, int]] = []
    after = Rows()
    for index, row in enumerate(taken, start=cut):
        if row.iteration < iteration:
            rest, row = split_group(row, iteration)
            rests.append((rest, index))
        after.append(row)
    rests.sort(key=lambda rest: rest[0].last_iteration)
    for rest, _ in rests:
        rows.append(rest)
    return after, {index: cut + place for place, (_, index) in enumerate(rests)}


def split_group(group: Row, iteration: int) -> tuple[Row, Row]:
    """A group as two, the second starting at `iteration` or the next row after it."""
    left, last, following = divide(group.iteration, group.last_iteration, group.count, iteration)
    right = group.count - left
    each = group.sum_ms / group.count
    return (
        replace(group, count=left, last_iteration=last, sum_ms=each * left),
        replace(group, count=right, iteration=following, sum_ms=each * right),
    )


def divide(first: int, last: int, count: int, iteration: int) -> tuple[int, int, int]:
    """How many of a group are before an iteration inside it, the last one of those, and the first one of the others.

    As if they were evenly spaced, which neighbours are, and the like of a mixture about so.
    """
    span, gaps = last - first, count - 1
    left = min(-((first - iteration) * gaps // span), gaps)  # rounded up
    return left, min(first + (left - 1) * span // gaps, iteration - 1), max(first - (-left * span // gaps), iteration)
