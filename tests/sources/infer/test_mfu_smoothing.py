"""The work of an iteration is recovered from a smoothed mfu, whatever the times do, or reported as unknown."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nanopace.run import Restart, Row, Rows, Run
from nanopace.sources.infer.mfu_smoothing import printed_work


def printed(
    times: Sequence[float], work: float, *, weight: float = 0.9, decimals: int = 2, unmeasured: int = 1
) -> list[Row]:
    """The rows that a trainer prints: times and mfu rounded as it does, with no mfu on the first rows."""
    rows, figure = [], -1.0
    for index, ms in enumerate(times):
        if index >= unmeasured:
            figure = work / ms if figure < 0 else weight * figure + (1 - weight) * work / ms
        mfu = None if figure < 0 else round(100 * figure, decimals) / 100
        rows.append(Row(10 * index, round(ms, 2), mfu=mfu))
    return rows


def run_of(rows: Sequence[Row], restarts: tuple[Restart, ...] = ()) -> Run:
    return Run("log", "nanogpt", Rows(rows), restarts=restarts, mfu_smoothing=0.9)


def evaluated(
    count: int, step_ms: float, *, every: int = 20, noise: float = 0.01, pace: Callable[[int], float] = lambda _: 1.0
) -> list[float]:
    noisy = random.Random(3)
    return [
        step_ms * pace(index) * (1 + noise * noisy.random()) + (30 * step_ms if index % every == 0 else 0.0)
        for index in range(count)
    ]


def test_an_average_that_never_recovers_from_its_evaluations() -> None:
    """An evaluation every 20 rows: the printed figure always stays below a step's."""
    rows = printed(evaluated(400, 200.0, noise=0.0), work=1.155 * 200)
    later = sorted(row.mfu for row in rows[40:] if row.mfu is not None)
    assert later[len(later) // 2] < 1.14
    work = printed_work(run_of(rows))
    assert work is not None
    assert work.ms / 200 == pytest.approx(1.155, rel=1e-4)
    assert work.low <= 1.155 * 200 <= work.high


def test_two_decimals_are_enough_for_a_tiny_figure() -> None:
    """0.19% falling to 0.12% while steps get slower by 30%."""
    rows = printed(evaluated(51, 2000.0, every=10, pace=lambda index: 1 + 0.006 * index), work=3.73)
    work = printed_work(run_of(rows))
    assert work is not None
    assert work.low <= 3.73 <= work.high
    assert work.uncertainty < 0.01


def test_a_log_that_begins_in_the_middle() -> None:
    rows = printed(evaluated(300, 170.0), work=20.35)
    for begin in (100, 110, 121):
        work = printed_work(run_of(rows[begin : begin + 40]))
        assert work is not None
        assert work.low <= 20.35 <= work.high
        assert work.uncertainty < 0.01


def test_lines_that_are_missing() -> None:
    rows = printed(evaluated(300, 170.0), work=20.35)
    work = printed_work(run_of([row for index, row in enumerate(rows) if index % 50 not in (20, 21)]))
    assert work is not None
    assert work.ms == pytest.approx(20.35, rel=0.002)


def test_a_restart_begins_a_new_average() -> None:
    rows = printed(evaluated(60, 170.0), work=20.35)
    again = [
        Row(600 + row.iteration, row.ms, mfu=row.mfu) for row in printed(evaluated(60, 190.0, every=7), work=20.35)
    ]
    work = printed_work(run_of([*rows, *again], (Restart(60, 600, 590),)))
    assert work is not None
    assert work.low <= 20.35 <= work.high
    # where the rows without a figure are cut out, too
    cut = printed_work(run_of([*rows, *again[1:]], (Restart(60, 600, 590),)))
    assert cut is not None
    assert cut.ms == pytest.approx(20.35, rel=1e-3)


def test_a_changed_batch_size_leaves_the_work_of_most_rows() -> None:
    times = evaluated(300, 170.0)
    rows = printed(times[:200], work=20.0)
    last = rows[-1].mfu or 0.0
    for index, ms in enumerate(times[200:], start=200):
        last = 0.9 * last + 0.1 * 40.0 / ms
        rows.append(Row(10 * index, round(ms, 2), mfu=round(last, 4)))
    work = printed_work(run_of(rows))
    assert work is not None
    assert work.ms == pytest.approx(20.0, rel=1e-3)


def test_a_fork_that_does_not_smooth() -> None:
    work = printed_work(run_of(printed(evaluated(100, 170.0, noise=0.05), work=20.35, weight=0.0)))
    assert work is not None
    assert work.ms == pytest.approx(20.35, rel=1e-3)


@pytest.mark.parametrize("decimals", [1, 3, 4])
def test_a_fork_that_prints_other_decimals(decimals: int) -> None:
    rows = printed(evaluated(100, 170.0, noise=0.05), work=20.35, decimals=decimals)
    work = printed_work(run_of(rows))
    assert work is not None
    assert work.low <= 20.35 <= work.high


def test_a_figure_that_has_nothing_to_do_with_the_times() -> None:
    noisy = random.Random(5)
    rows = [Row(10 * index, 170 * (1 + noisy.random()), mfu=round(noisy.random(), 4)) for index in range(100)]
    assert printed_work(run_of(rows)) is None


@pytest.mark.parametrize("mfu", [None, 0.0])
def test_nothing_is_printed(mfu: float | None) -> None:
    assert printed_work(run_of([Row(10 * index, 170.0, mfu=mfu) for index in range(20)])) is None
    assert printed_work(run_of([])) is None


def test_only_single_rows_are_looked_at() -> None:
    """Among folded rows, the figure before a slow one is not the one that was averaged."""
    rows = printed(evaluated(100, 170.0), work=20.35)
    slow = Row(1010, 5000.0, mfu=0.01)  # inside the first group, and before it when ordered by last iteration
    groups = [Row(n, 170.0, mfu=0.1, count=50, last_iteration=n + 490, sum_ms=8500.0) for n in range(1000, 99_000, 500)]
    assert printed_work(run_of([*rows, slow, *groups])) == printed_work(run_of(rows))


@settings(max_examples=150, deadline=None)
@given(
    times=st.lists(st.floats(5.0, 50_000.0), min_size=12, max_size=80),
    mfu=st.floats(0.0005, 1.6),
    begin=st.integers(0, 5),
)
def test_the_truth_lies_between_the_bounds(times: list[float], mfu: float, begin: int) -> None:
    work = mfu * sorted(times)[len(times) // 2]
    found = printed_work(run_of(printed(times, work)[begin:]))
    assert found is None or found.low * (1 - 1e-6) <= work <= found.high * (1 + 1e-6)
    assert found is None or math.isfinite(found.uncertainty)
