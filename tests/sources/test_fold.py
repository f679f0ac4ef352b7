from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nanopace.run import Row, Rows
from nanopace.sources.fold import divide, fold_rows, split_group, take_rows


def rows(*times: float, start: int = 0, spacing: int = 1) -> list[Row]:
    return [Row(start + spacing * place, ms, 3.0 + place, 0.1) for place, ms in enumerate(times)]


def test_rows_that_are_alike_become_one() -> None:
    (group,) = fold_rows(rows(10.0, 12.0, 11.0, spacing=10), first_single=False)
    assert group == Row(0, 11.0, 4.0, 0.1, count=3, last_iteration=20, sum_ms=33.0)


def test_a_slow_row_stays_single_and_in_its_place() -> None:
    folded = fold_rows(rows(10.0, 10.0, 99.0, 10.0, 10.0), first_single=False)
    assert [(row.iteration, row.last_iteration, row.count) for row in folded] == [(0, 1, 2), (2, 2, 1), (3, 4, 2)]


def test_a_row_a_fifth_above_the_median_is_not_slow_yet() -> None:
    assert [row.count for row in fold_rows(rows(10.0, 10.0, 12.0), first_single=False)] == [3]
    assert [row.count for row in fold_rows(rows(10.0, 10.0, 12.001), first_single=False)] == [2, 1]


def test_the_first_after_another_line_stays_single() -> None:
    assert [row.count for row in fold_rows(rows(10.0, 10.0, 10.0), first_single=True)] == [1, 2]


def test_a_change_of_the_spacing_ends_a_group() -> None:
    uneven = rows(10.0, 10.0, 10.0) + rows(10.0, 10.0, 10.0, start=10, spacing=5)
    assert [(row.iteration, row.count) for row in fold_rows(uneven, first_single=False)] == [(0, 3), (10, 1), (15, 2)]


def test_groups_have_a_largest_size() -> None:
    counts = [row.count for row in fold_rows(rows(*[10.0] * 600), first_single=False)]
    assert counts == [256, 256, 88]


@given(
    st.lists(st.tuples(st.sampled_from([1, 1, 1, 2, 0, -3]), st.floats(1, 100)), max_size=80),
    st.booleans(),
)
def test_nothing_is_lost(steps: list[tuple[int, float]], first_single: bool) -> None:
    single = [Row(1000 + sum(step for step, _ in steps[:at]), ms, 3.0) for at, (_, ms) in enumerate(steps, start=1)]
    folded = fold_rows(single, first_single)
    assert sum(row.count for row in folded) == len(single)
    assert abs(sum(row.sum_ms for row in folded) - sum(row.ms for row in single)) < 1e-6
    for row in folded:
        assert row.last_iteration - row.iteration == 0 or row.count > 1


def test_take_rows() -> None:
    before = Rows([Row(0, 5.0), Row(10, 5.0, count=4, last_iteration=40, sum_ms=22.0), Row(50, 5.0)])
    after, places = take_rows(before, 25)
    assert places == {1: 1}
    assert [(row.iteration, row.last_iteration, row.count, row.sum_ms) for row in before] == [
        (0, 0, 1, 5.0),
        (10, 20, 2, 11.0),
    ]
    assert [(row.iteration, row.last_iteration, row.count, row.sum_ms) for row in after] == [
        (30, 40, 2, 11.0),
        (50, 50, 1, 5.0),
    ]


@given(st.integers(2, 50), st.integers(1, 9), st.integers(0, 500))
def test_split_group(count: int, spacing: int, offset: int) -> None:
    group = Row(100, 5.0, count=count, last_iteration=100 + (count - 1) * spacing, sum_ms=6.0 * count)
    at = 101 + offset % ((count - 1) * spacing)
    left, right = split_group(group, at)
    assert left.count + right.count == count
    assert left.last_iteration < at <= right.iteration
    assert right.iteration - left.last_iteration == spacing
    assert right.last_iteration == group.last_iteration
    assert right.iteration + (right.count - 1) * spacing == right.last_iteration


def test_take_whole_rows() -> None:
    before = Rows(rows(1.0, 1.0, 1.0))
    after, _ = take_rows(before, 1)
    assert (list(before.iteration), list(after.iteration)) == ([0], [1, 2])


@given(st.sets(st.integers(0, 300), min_size=2, max_size=60), st.data())
def test_divide(members: set[int], data: st.DataObject) -> None:
    first, last, count = min(members), max(members), len(members)
    at = data.draw(st.integers(first + 1, last))
    left, left_last, right_first = divide(first, last, count, at)
    assert 1 <= left < count
    assert first <= left_last < at <= right_first <= last
    assert left_last - first >= left - 1 or left_last == at - 1
