"""Iteration times on one line."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nanopace.views.terminal.sparkline import LETTERS, LEVELS, bar, sparkline


def test_a_spike_stands_out_and_is_marked() -> None:
    line = sparkline(range(10), [100.0] * 4 + [3000.0] + [101.0] * 5, [None] * 4 + ["evaluation"] + [None] * 5, 40)
    assert line.bars == "▁▁▁▁█▁▁▁▁▁"
    assert line.marks == "    E     "
    assert line.causes == ("evaluation",)


def test_a_spike_survives_when_many_rows_share_a_column() -> None:
    times, causes = [100.0] * 1000, [None] * 1000
    times[537], causes[537] = 900.0, "stall"  # type: ignore[call-overload]
    line = sparkline(range(1000), times, causes, 20)
    assert line.bars.count("█") == 1
    assert line.marks.index("!") == line.bars.index("█") == 10


def test_evaluations_stay_visible_where_every_column_has_one() -> None:
    times, causes = [100.0 + n % 3 for n in range(1000)], [None] * 1000
    for n in range(0, 1000, 5):
        times[n], causes[n] = 3000.0, "evaluation"  # type: ignore[call-overload]
    line = sparkline(range(1000), times, causes, 40)
    assert line.bars == "█" * 40
    assert line.marks == "E" * 40


def test_noise_is_no_mountain() -> None:
    assert set(sparkline(range(50), [100.0, 101.0] * 25, [None] * 50, 50).bars) == {"▁"}


def test_a_shift_of_the_baseline_shows() -> None:
    bars = sparkline(range(40), [100.0] * 20 + [200.0] * 20, [None] * 40, 40).bars
    assert bars == "▁" * 20 + "█" * 20


def test_a_gap_stays_empty() -> None:
    assert sparkline([0, 1, 2, 100], [1.0] * 4, [None] * 4, 4).bars == "▁  ▁"


def test_nothing_is_nothing() -> None:
    assert sparkline([], [], [], 40).bars == ""


@given(
    st.lists(
        st.tuples(st.floats(min_value=0, max_value=1e9), st.sampled_from([None, *LETTERS])), min_size=1, max_size=200
    ),
    st.integers(min_value=1, max_value=120),
)
def test_any_times_fit(rows: list[tuple[float, str | None]], width: int) -> None:
    times, causes = zip(*rows, strict=True)
    line = sparkline(range(len(rows)), times, causes, width)
    assert len(line.marks) == min(width, len(rows))
    assert len(line.bars) in (0, len(line.marks))
    assert set(line.bars) <= {*LEVELS, " "}


def test_a_bar_is_as_long_as_its_share() -> None:
    assert bar(0.5, 20) == "█" * 10
    assert bar(0.002, 20) == "█"
    assert bar(0.0001, 20) == ""
