from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanopace.views.page.waterfall import Change, bars

NUMBERS = st.floats(-5, 5)


@given(NUMBERS, st.lists(st.tuples(NUMBERS, st.none() | st.floats(0, 3)), max_size=6))
def test_each_bar_hangs_on_the_one_before_and_all_are_in_the_picture(
    first: float, drawn: list[tuple[float, float | None]]
) -> None:
    changes = [Change(str(number), value, error, "") for number, (value, error) in enumerate(drawn)]
    last = first + sum(value for value, _ in drawn)
    found = bars(("A", first, "here"), changes, ("B", last, "there"))
    assert [bar.name for bar in found] == ["A", *(change.name for change in changes), "B"]
    end = found[0].width
    for bar, change in zip(found[1:-1], changes, strict=True):
        begin = bar.left if change.value > 0 else bar.left + bar.width
        assert begin == pytest.approx(end)
        end = bar.left + bar.width if change.value > 0 else bar.left
        assert bar.kind == ("up" if change.value > 0 else "down")
        if change.error is None:
            assert bar.low is None
        else:
            assert bar.low is not None
            assert bar.high is not None
            assert 0 <= bar.low <= end + 1e-9 <= bar.high + 2e-9 <= 1 + 3e-9
        assert 0 <= bar.left <= bar.left + bar.width <= 1 + 1e-9
    assert found[-1].width == pytest.approx(end)


@given(st.lists(st.tuples(NUMBERS, st.floats(0, 3)), min_size=1, max_size=6))
def test_without_a_last_one_every_bar_begins_at_the_first(drawn: list[tuple[float, float]]) -> None:
    found = bars(("A", 0.0, ""), [Change(str(each), *each, "") for each in drawn], None)
    assert len(found) == 1 + len(drawn)
    for bar, (value, _) in zip(found[1:], drawn, strict=True):
        assert (bar.left if value > 0 else bar.left + bar.width) == pytest.approx(found[0].width)
        assert bar.low is not None
        assert bar.high is not None
        assert 0 <= min(bar.left, bar.low) <= max(bar.left + bar.width, bar.high) <= 1 + 1e-9
    longest = max(found[1:], key=lambda bar: bar.width)
    assert abs(drawn[found.index(longest) - 1][0]) == pytest.approx(max(abs(value) for value, _ in drawn))
