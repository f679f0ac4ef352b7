"""numpy's folding and the plain one must agree."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nanopace.run import Evaluation, Row
from nanopace.sources.bulk.nanogpt_lines import RowBlock
from nanopace.sources.bulk.numpy_fold import fold_block
from nanopace.sources.fold import LARGEST_GROUP, fold_rows

from ..mixtures import fold_mixture, fold_with_numpy

# A step of 1 leads to a row; iterations between two rows may still be evaluated.
usual_times = st.sampled_from([10.0, 10.5, 11.0, 11.0])
times = st.one_of(usual_times, usual_times, usual_times, st.sampled_from([7.0, 13.0, 40.0]))
line = st.tuples(
    st.integers(1, 3),  # iterations since the row before
    times,
    st.sampled_from(["", "", "", "inside", "inside", "inside saved", "hidden", "hidden saved"]),
    st.integers(30, 40),  # the loss in tenths: often the same
)


def told(lines: list[tuple[int, float, str, int]]) -> tuple[list[Row], list[Evaluation], list[int]]:
    """Rows, evaluations, and for each evaluation the row that follows it; a hidden one needs room before its row."""
    rows: list[Row] = []
    evaluations: list[Evaluation] = []
    following: list[int] = []
    iteration = 100
    for step, ms, event, tenths in lines:
        iteration += step
        inside = event.startswith("inside")
        if inside or (event and step > 1):
            at = iteration if inside else iteration - 1
            evaluations.append(Evaluation(at, tenths / 10 - 0.1, tenths / 10))
            following.append(len(rows))
        rows.append(Row(iteration, ms + 30 * inside, tenths / 9, ms / 100))
    return rows, evaluations, following


@settings(max_examples=150, deadline=None)
@given(st.lists(line, min_size=1, max_size=30), st.integers(1, 6))
def test_both_fold_mixtures_alike(lines: list[tuple[int, float, str, int]], repeat: int) -> None:
    lines = lines * repeat
    rows, evaluations, following = told(lines)
    saves = [lines[row][2].endswith("saved") for row in following]
    saved = {each.iteration for each, saves_too in zip(evaluations, saves, strict=True) if saves_too}
    expected = fold_mixture(rows, evaluations, saved)
    found = fold_with_numpy(rows, evaluations, saved)
    assert (found is None) == (expected is None)
    if found is None or expected is None:
        return
    assert found.evaluations == expected.evaluations
    assert found.checkpoints == expected.checkpoints
    assert [exact(row) for row in found.rows] == [exact(row) for row in expected.rows]
    assert [row.loss for row in found.rows] == pytest.approx([row.loss for row in expected.rows])
    assert [row.sum_ms for row in found.rows] == pytest.approx([row.sum_ms for row in expected.rows])


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from([1, 1, 1, 2, 10, 0, -3]), times, st.sampled_from([1, 2, 3, 255, 256, 257, 600])),
        min_size=1,
        max_size=8,
    ),
    st.booleans(),
)
@example([(1, 10.0, 600)], False)
@example([(1, 10.0, 1), (1, 40.0, 1), (1, 10.0, 256)], True)
def test_both_fold_neighbours_alike(pieces: list[tuple[int, float, int]], first_single: bool) -> None:
    """Pieces of up to 600 rows: more than a group holds."""
    rows: list[Row] = []
    iteration = 100
    for step, ms, count in pieces:
        for place in range(count):
            iteration += step
            rows.append(Row(iteration, ms + place % 3 / 8, 3.0 + place, None if place % 5 else 0.25))
    expected = fold_rows(rows, first_single)
    columns = [[getattr(row, name) for row in rows] for name in ("iteration", "ms", "loss")]
    mfu = np.array([np.nan if row.mfu is None else row.mfu for row in rows])
    flags = np.zeros(len(rows), np.bool_)
    flags[0] = first_single
    found = [row for _, row in fold_block(RowBlock(np.arange(len(rows)), *map(np.array, columns), mfu), flags)]
    assert max(row.count for row in found) <= LARGEST_GROUP
    assert [exact(row) for row in found] == [exact(row) for row in expected]
    assert [row.loss for row in found] == pytest.approx([row.loss for row in expected])
    assert [row.sum_ms for row in found] == pytest.approx([row.sum_ms for row in expected])


def exact(row: Row) -> tuple[float | None, ...]:
    return row.iteration, row.last_iteration, row.count, row.ms, row.mfu
