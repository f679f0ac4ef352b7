"""Folds similar rows: twenty million rows become a hundred thousand, and nothing worth knowing is lost.

Similar rows become one `Row` with a count, their median time, total time, mean loss and last printed mfu. Slow rows
stay single, and so does the first row after any line that is neither a row nor one of many evaluations (a process
header, for example).

With few evaluations, neighbours are folded, and a group never spans an evaluation (`fold_rows`). With many, that would
leave most rows single. There, similar rows are folded over a whole stretch of the log: the plain rows, those with an
evaluation, and those that also save a checkpoint. This is a `Mixture`.

bulk/numpy_fold.py folds in both ways with numpy. Mixtures occur only in long logs, so only that module makes them.
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
_LONGEST_PART = 32 * LARGEST_GROUP  # rows to fold at a time
SLOW = 1.2  # times the median of the rows around it, or of similar rows


class Mixture(NamedTuple):
    """A folded stretch of a log. `row` of an evaluation or checkpoint is an index into these rows."""

    rows: Sequence[Row]
    evaluations: Sequence[Evaluation]
    checkpoints: Sequence[Checkpoint]


# --- neighbours ------------------------------------------------------------------------------------------------------


def fold_rows(rows: Sequence[Row], first_single: bool) -> list[Row]:
    """Fold consecutive rows of a log that have no other line between them."""
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
    """Fold the rows of a run in place, from `start` on. Rows at `breaks` stay single, and no group spans them.

    Returns the new indices of the rows at `breaks`, and of the end.
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
    """Stretches of evenly spaced rows, at most LARGEST_GROUP each."""
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
    """Remove the rows of an iteration and later ones. Groups that span it are divided in proportion.

    Returns the removed rows, and the new index of each divided group's remaining part, by its old index.
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
    """Split a group in two. The second starts at `iteration` or the next row after it."""
    left, last, following = divide(group.iteration, group.last_iteration, group.count, iteration)
    right = group.count - left
    each = group.sum_ms / group.count
    return (
        replace(group, count=left, last_iteration=last, sum_ms=each * left),
        replace(group, count=right, iteration=following, sum_ms=each * right),
    )


def divide(first: int, last: int, count: int, iteration: int) -> tuple[int, int, int]:
    """How many of a group come before an iteration, the last of those, and the first of the others.

    This assumes even spacing, which is true for neighbours and roughly true in a mixture.
    """
    span, gaps = last - first, count - 1
    left = min(-((first - iteration) * gaps // span), gaps)  # rounded up
    return left, min(first + (left - 1) * span // gaps, iteration - 1), max(first - (-left * span // gaps), iteration)
