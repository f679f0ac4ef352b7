from __future__ import annotations

import pytest

from nanopace.diagnosis.time.baseline_rows import baseline_rows

N, S = 0.0, 0.5  # a normal row, and a slow one


@pytest.mark.parametrize(
    ("logs", "told"),
    [
        ([N, S, N, S, N, S], [0, 2, 4]),
        ([N, S, N, S], [0, 1, 2, 3]),  # two normal rows are too few to know
        ([N, S, S, N, S, S, N, S, S], list(range(9))),  # they do not alternate
        ([N, S, N, N, S, N, S, N, S, S, N], [0, 2, 3, 5, 7, 10]),
        ([N, N, N, S, S, S], [0, 1, 2, 3, 4, 5]),  # a change of speed
        ([N, N, N, S, N, N, N, N, S, N], list(range(10))),  # few: they do not affect a median
    ],
)
def test_slow_rows_that_alternate_with_normal_ones_tell_nothing(logs: list[float], told: list[int]) -> None:
    assert list(baseline_rows(logs, range(len(logs)), {})) == told


def test_of_rows_that_were_folded_the_typical_one_tells() -> None:
    assert list(baseline_rows([N, S, N], [4, 5, 6], {4: 4, 5: 4})) == [0, 2]


def test_a_long_stretch_of_slow_rows_is_a_level_not_one_half_of_an_alternation() -> None:
    logs = [N, S, N, N] * 13 + [S] * 12
    assert list(baseline_rows(logs, range(len(logs)), {})) == list(range(len(logs)))
