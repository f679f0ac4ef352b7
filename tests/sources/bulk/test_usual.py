from __future__ import annotations

import numpy as np

from nanopace.sources.bulk.usual import folded


def test_the_first_row_stays_single_since_it_may_follow_on_anything() -> None:
    found = folded(np.arange(20.0), np.full(20, 5.0), np.ones(20))
    assert found is not None
    assert [(row.iteration, row.count, row.mfu) for row in found] == [(0, 1, None), (1, 19, None)]


def test_rows_that_do_not_rise_are_read_by_another() -> None:
    assert folded(np.array([0.0, 1.0, 1.0]), np.full(3, 5.0), np.ones(3)) is None
