"""numpy's folding and the plain one must agree."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nanopace.run import Evaluation, Row
from nanopace.sources.bulk.nanogpt_lines import EvaluationBlock, RowBlock
from nanopace.sources.bulk.numpy_fold import Stretch, fold_stretch
from nanopace.sources.fold import fold_mixture

# A step of 1 leads to a row; what lies between two rows may be evaluated all the same.
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
    row_columns = [[getattr(row, name) for row in rows] for name in ("iteration", "ms", "loss", "mfu")]
    evaluation_columns = [[getattr(each, name) for each in evaluations] for name in ("iteration", "train", "val")]
    found = fold_stretch(
        Stretch(
            RowBlock(np.arange(len(rows)), *map(np.array, row_columns)),
            EvaluationBlock(np.arange(len(evaluations)), *map(np.array, evaluation_columns)),
            np.array(saves, np.bool_),
            np.array(following, np.int64),
        )
    )
    assert (found is None) == (expected is None)
    if found is None or expected is None:
        return
    assert found.evaluations == expected.evaluations
    assert found.checkpoints == expected.checkpoints
    assert [exact(row) for row in found.rows] == [exact(row) for row in expected.rows]
    assert [row.loss for row in found.rows] == pytest.approx([row.loss for row in expected.rows])
    assert [row.sum_ms for row in found.rows] == pytest.approx([row.sum_ms for row in expected.rows])


def exact(row: Row) -> tuple[float | None, ...]:
    return row.iteration, row.last_iteration, row.count, row.ms, row.mfu
