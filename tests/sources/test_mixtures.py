"""Similar rows among many evaluations are folded together, by numpy and by its plain twin."""

from __future__ import annotations

import pytest

from nanopace.run import Checkpoint, Evaluation, Row, Rows
from nanopace.sources.fold import take_rows

from .mixtures import Fold, fold_mixture, fold_with_numpy

both = pytest.mark.parametrize("fold", [fold_mixture, fold_with_numpy])


def mixed(count: int, **slow: float) -> tuple[list[Row], list[Evaluation], set[int]]:
    """Every third row evaluates, every sixth also saves; `slow` gives times of rows, by "at" and their index."""
    usual = [10.0 + 50 * (place % 3 == 0) + 5 * (place % 6 == 0) for place in range(count)]
    printed = [Row(100 + place, slow.get(f"at{place}", ms), 3.0, 0.1) for place, ms in enumerate(usual)]
    evaluated = [Evaluation(row.iteration, 3.0, 4 - row.iteration / 1000) for row in printed[::3]]
    return printed, evaluated, {row.iteration for row in printed[::6]}


@both
def test_like_is_folded_with_like(fold: Fold) -> None:
    folded = fold(*mixed(60))
    assert folded is not None
    assert [(row.iteration, row.last_iteration, row.count, row.ms) for row in folded.rows] == [
        (100, 154, 10, 65.0),
        (103, 157, 10, 60.0),
        (101, 159, 40, 10.0),
    ]
    saved, unsaved = folded.evaluations
    assert saved == Evaluation(154, 3.0, 4 - 0.154, row=0, count=10, first_iteration=100, lowest=(154, 4 - 0.154))
    assert (unsaved.iteration, unsaved.row, unsaved.count) == (157, 1, 10)
    assert folded.checkpoints == [Checkpoint(154, row=0, count=10, first_iteration=100)]


@both
def test_what_is_slow_among_its_like_stays_single(fold: Fold) -> None:
    folded = fold(*mixed(60, at10=13.0, at30=99.0))
    assert folded is not None
    assert [(row.iteration, row.count) for row in folded.rows] == [(110, 1), (130, 1), (100, 9), (103, 10), (101, 39)]
    (late,) = [each for each in folded.evaluations if each.count == 1]
    assert (late.iteration, late.row) == (130, 1)


@both
def test_the_rows_of_a_mixture_are_known_by_their_overlap(fold: Fold) -> None:
    folded = fold(*mixed(60))
    assert folded is not None
    single = [Row(97, 9.0), Row(98, 9.0)]
    assert Rows([*single, *folded.rows, Row(160, 9.0)]).mixtures() == [range(2, 5)]
    assert Rows(folded.rows).mixtures() == [range(3)]
    assert Rows([*single, Row(99, 9.0, count=5, last_iteration=105)]).mixtures() == []
    assert Rows().mixtures() == []


@both
def test_a_change_of_the_step_time_is_not_folded(fold: Fold) -> None:
    printed, evaluated, saves = mixed(60)
    slower = [Row(row.iteration, 1.5 * row.ms, 3.0, 0.1) for row in printed[50:]]
    assert fold([*printed[:50], *slower], evaluated, saves) is None


@both
def test_overlapping_groups_are_divided(fold: Fold) -> None:
    folded = fold(*mixed(60))
    assert folded is not None
    before = Rows([Row(99, 9.0), *folded.rows])
    after, _ = take_rows(before, 130)
    assert [(row.iteration, row.last_iteration, row.count) for row in before] == [
        (99, 99, 1),
        (100, 124, 5),
        (103, 127, 5),
        (101, 129, 20),
    ]
    assert [(row.iteration, row.last_iteration, row.count) for row in after] == [
        (130, 154, 5),
        (133, 157, 5),
        (131, 159, 20),
    ]


def plain(*times: float) -> tuple[list[Row], list[Evaluation], set[int]]:
    return [Row(100 + place, ms, 3.0, 0.1) for place, ms in enumerate(times)], [], set()


@both
@pytest.mark.parametrize(("count", "counts"), [(7, [1] * 7), (8, [8])])
def test_eight_of_a_kind_are_folded(fold: Fold, count: int, counts: list[int]) -> None:
    folded = fold(*plain(*[10.0] * count))
    assert folded is not None
    assert [row.count for row in folded.rows] == counts


@both
@pytest.mark.parametrize(
    ("times", "counts"),
    [
        ([10.0] * 20 + [12.0] * 5, [25]),  # a fifth more is not slow yet
        ([10.0] * 20 + [12.01] * 4, [1, 1, 1, 1, 20]),
        ([10.0] * 20 + [12.01] * 5, None),  # five in a row are a change
        ([10.0] * 20 + [12.01] * 4 + [10.0] + [12.01], [1] * 5 + [21]),
        ([12.0] * 20 + [10.0] * 5, [25]),
        ([12.0] * 20 + [9.99] * 4, [24]),  # what is fast is no stall
        ([12.0] * 20 + [9.99] * 5, None),
        ([10.0] * 2 + [13.0] * 5, [1] * 7),  # too few to tell
    ],
)
def test_a_change_of_the_step_time(fold: Fold, times: list[float], counts: list[int] | None) -> None:
    folded = fold(*plain(*times))
    assert (folded and sorted(row.count for row in folded.rows)) == counts


@both
@pytest.mark.parametrize(("between", "counts"), [(7, [1] * 7), (8, [8])])
@pytest.mark.parametrize("saved", [False, True])
def test_evaluations_between_rows(fold: Fold, between: int, counts: list[int], saved: bool) -> None:
    rows = [Row(100 + 2 * place, 10.0, 3.0, 0.1) for place in range(20)]
    evaluations = [Evaluation(101 + 2 * place, 3.0, 4 + abs(3 - place) / 10) for place in range(between)]
    folded = fold(rows, evaluations, {each.iteration for each in evaluations} if saved else set())
    assert folded is not None
    assert [(each.row, each.count) for each in folded.evaluations] == [(None, count) for count in counts]
    assert [(each.row, each.count) for each in folded.checkpoints] == ([(None, n) for n in counts] if saved else [])
    last = folded.evaluations[-1]
    assert (last.iteration, last.val) == (evaluations[-1].iteration, evaluations[-1].val)
    assert last.lowest == ((107, 4.0) if between == 8 else None)
