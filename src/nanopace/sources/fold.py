"""Rows that stand for many: a log of twenty million rows as a hundred thousand, and nothing worth knowing lost.

Neighbouring rows that are alike become one `Row` with a count, their median time, the sum of their times, their mean
loss and the mfu that the last of them printed. What stays single: slow rows, and the first row after any other line (an
evaluation, a checkpoint, the header of a process). A group never spans such a line, nor a change of the spacing.

This is the plain twin of what bulk.py does with numpy.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from nanopace.record import replace
from nanopace.run import Row, Rows

LARGEST_GROUP = 256
SLOW = 1.2  # times the median of the rows around it


def fold_rows(rows: Sequence[Row], first_single: bool) -> list[Row]:
    """Consecutive rows of a log, no other line between them, as fewer rows."""
    folded: list[Row] = []
    for block in _blocks(rows, first_single):
        limit = SLOW * _median([row.ms for row in block])
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
        ms=_median([row.ms for row in rows]),
        sum_ms=sum(row.ms for row in rows),
        loss=sum(row.loss or 0.0 for row in rows) / len(rows),
        mfu=rows[-1].mfu,
    )


def _median(values: list[float]) -> float:
    """The upper one of two: a time that was printed, and no mean of two."""
    return sorted(values)[len(values) // 2]


def split_rows(rows: Rows, iteration: int) -> tuple[Rows, Rows]:
    """The rows before an iteration, and the others. A group that spans it is divided in proportion."""
    cut = bisect_left(rows.iteration, iteration)
    if not cut or rows.last_iteration[cut - 1] < iteration:
        return rows[:cut], rows[cut:]
    group = rows[cut - 1]
    before, after = rows[: cut - 1], Rows()
    if group.count == 1:
        after.append(group)
    else:
        left, right = split_group(group, iteration)
        before.append(left)
        after.append(right)
    for row in rows[cut:]:
        after.append(row)
    return before, after


def split_group(group: Row, iteration: int) -> tuple[Row, Row]:
    """A group of evenly spaced rows as two, the second starting at `iteration` or the next row after it."""
    spacing = (group.last_iteration - group.iteration) // (group.count - 1)
    left = -((group.iteration - iteration) // spacing)  # how many rows are before it: rounded up
    right = group.count - left
    each = group.sum_ms / group.count
    return (
        replace(group, count=left, last_iteration=group.iteration + (left - 1) * spacing, sum_ms=each * left),
        replace(group, count=right, iteration=group.iteration + left * spacing, sum_ms=each * right),
    )
