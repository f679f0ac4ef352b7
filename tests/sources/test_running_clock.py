"""A clock that keeps running: row times are right on average, whatever it shows, and evaluations are subtracted."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nanopace.medians import median
from nanopace.run import Run
from nanopace.sources.build import RunBuilder
from nanopace.sources.infer.cover import per_iteration
from nanopace.sources.log_format import LogFormat
from nanopace.sources.running_clock import RunningClock

FORMAT = LogFormat("ticking", "somebody", "", row_contains_evaluation=False, row_time="all")


def ticking(resolution_s: float = 1.0, starts_s: float | None = 0.0) -> tuple[RunningClock, RunBuilder]:
    builder = RunBuilder("run", FORMAT)
    return RunningClock(builder, resolution_s=resolution_s, starts_s=starts_s), builder


def run_of(clock: RunningClock, builder: RunBuilder) -> Run:
    clock.flush()
    (run,) = builder.finish()
    return run


@example(row_s=0.5, rows=150, start_s=2.0)
@given(row_s=st.floats(0.3, 40), rows=st.integers(150, 400), start_s=st.floats(0, 3))
def test_whole_seconds_do_not_shift_what_a_row_takes(row_s: float, rows: int, start_s: float) -> None:
    clock, builder = ticking()
    for number in range(1, rows + 1):
        clock.row(10 * number, math.floor(start_s + number * row_s), 2.0)
    run = run_of(clock, builder)
    in_the_mean_ms = 1000 * start_s / rows  # if seconds do not tell the first row from the others
    assert median(run.rows.ms) == pytest.approx(1000 * row_s, rel=0.02, abs=max(10, in_the_mean_ms + 0.01))
    assert sum(run.rows.ms) == pytest.approx(1000 * math.floor(start_s + rows * row_s), abs=1e-3)
    assert min(run.rows.ms) > 0
    if row_s >= 1:  # what the clock leaves unknown, and no more
        assert all(abs(ms - 1000 * row_s) < 1000 + 20 * row_s for ms in run.rows.ms[1:])


def test_a_row_that_took_longer_keeps_its_time() -> None:
    clock, builder = ticking()
    at_s = 0.0
    for number in range(1, 61):
        at_s += 10.4 if number != 30 else 25.4
        clock.row(number, math.floor(at_s), 2.0)
    run = run_of(clock, builder)
    assert run.rows.ms[29] == pytest.approx(25_400, abs=1000)
    assert max(run.rows.ms[index] for index in range(60) if index != 29) < 11_500


def test_fractions_are_taken_as_they_are() -> None:
    clock, builder = ticking(0.0)
    for step, at_s in ((10, 1.25), (20, 2.75), (30, 3.5)):
        clock.row(step, at_s, 2.0)
    assert list(run_of(clock, builder).rows.ms) == [1250, 1500, 750]


@pytest.mark.parametrize("resolution_s", [0.0, 1.0])
def test_an_evaluation_is_taken_out_of_the_row_behind_it(resolution_s: float) -> None:
    """Using its own time, or, after a row of the same step, the clock."""
    clock, builder = ticking(resolution_s)
    clock.row(10, 10.0, 2.0)
    clock.evaluation(10, 2.1, ms=5000)
    clock.row(20, 25.0, 1.9)
    clock.evaluation(20, 2.0, at_s=32.0)
    clock.row(30, 42.0, 1.8)
    run = run_of(clock, builder)
    assert [(each.iteration, each.ms) for each in run.evaluations] == [(10, 5000), (20, 7000)]
    assert sum(run.rows.ms) == pytest.approx(30_000)
    assert not run.row_contains_evaluation


def test_an_evaluation_between_two_rows_stays_in_the_second() -> None:
    clock, builder = ticking(0.0)
    clock.row(10, 10.0, 2.0)
    clock.evaluation(15, 2.1, at_s=25.0)
    clock.row(20, 30.0, 1.9)
    run = run_of(clock, builder)
    assert list(run.rows.ms) == [10_000, 20_000]
    assert run.evaluations[0].ms is None
    assert run.row_contains_evaluation


def test_an_evaluation_of_unknown_length_after_a_row_is_in_the_next_one() -> None:
    clock, builder = ticking(0.0)
    for step in (10, 20, 30):
        clock.row(step, float(step), 2.0)
        clock.evaluation(step, 2.1)
    run = run_of(clock, builder)
    assert [each.row for each in run.evaluations] == [1, 2, None]
    assert run.row_contains_evaluation


def test_an_evaluation_of_another_set_is_time_and_no_loss() -> None:
    clock, builder = ticking(0.0)
    clock.row(10, 10.0, 2.0)
    clock.evaluation(10, None, ms=5000)
    clock.row(20, 25.0, 1.9)
    run = run_of(clock, builder)
    assert list(run.rows.ms) == [10_000, 10_000]
    assert not run.evaluations
    assert [(span.phase, span.ms) for span in run.spans] == [("evaluation", 5000)]


def test_a_process_that_resumes_begins_its_clock_anew() -> None:
    clock, builder = ticking(0.0)
    for step in (10, 20, 30):
        clock.row(step, float(step), 2.0)
    clock.restart()
    for step, at_s in ((30, 14.0), (40, 24.0)):
        clock.row(step, at_s, 1.9)
    run = run_of(clock, builder)
    assert list(run.rows.iteration) == [10, 20, 30, 40]
    assert [restart.iteration for restart in run.restarts] == [30]
    assert list(run.rows.ms)[2:] == [14_000, 10_000]


def test_a_process_that_starts_from_the_beginning_is_another_run() -> None:
    clock, builder = ticking(0.0)
    for _ in range(2):
        clock.restart()
        for step in (10, 20):
            clock.row(step, float(step), 2.0)
    clock.flush()
    assert [list(run.rows.ms) for run in builder.finish()] == [[10_000, 10_000]] * 2


def test_the_first_row_of_an_excerpt_has_no_time() -> None:
    clock, builder = ticking(0.0)
    for step in (5000, 5010, 5020):
        clock.row(step, float(step), 2.0)
    assert list(run_of(clock, builder).rows.iteration) == [5010, 5020]


def test_a_clock_whose_start_is_unknown() -> None:
    clock, builder = ticking(0.0, None)
    for step in (10, 20, 30):
        clock.row(step, 1e9 + step, 2.0)
    assert list(run_of(clock, builder).rows.iteration) == [20, 30]


@pytest.mark.parametrize("resolution_s", [0.0, 1.0])
def test_where_no_time_passes_there_is_none(resolution_s: float) -> None:
    clock, builder = ticking(resolution_s)
    for step in (10, 20, 30):
        clock.row(step, 0.0, 2.0)
    run = run_of(clock, builder)
    assert (len(run.rows), list(run.untimed_rows.iteration)) == (0, [10, 20, 30])


def test_a_process_that_resumes_and_at_first_shows_no_time() -> None:
    clock, builder = ticking()
    for step in (10, 20, 30):
        clock.row(step, float(step), 2.0)
    clock.restart()
    for step, at_s in ((30, 0.0), (40, 10.0), (50, 20.0)):
        clock.row(step, at_s, 1.9)
    run = run_of(clock, builder)
    assert (list(run.rows.iteration), len(run.untimed_rows)) == ([10, 20, 30, 40, 50], 0)


@pytest.mark.parametrize("scatter", [(0.5, 2.6, 2.2), (0.9, 1.1, 3.1), (0.2, 3.4, 3.2, 3.0)])
def test_no_row_is_left_out(scatter: tuple[float, ...]) -> None:
    """Some take so little that the clock shows the same second twice."""
    clock, builder = ticking()
    at_s = 0.0
    for step in range(1, 1201):
        at_s += scatter[step % len(scatter)]
        clock.row(step, math.floor(at_s), 2.0)
    run = run_of(clock, builder)
    assert list(run.rows.iteration) == list(range(1, 1201))
    assert sum(run.rows.ms) == pytest.approx(1000 * at_s, abs=1000)


@pytest.mark.parametrize("row_s", [1.45, 1.5, 1.55])
def test_the_median_of_whole_seconds_is_no_level(row_s: float) -> None:
    """It is one second in some stretches and two in others, and the means of all stretches are the same."""
    clock, builder = ticking()
    at_s = 0.0
    for step in range(1, 2401):
        at_s += row_s * (0.2 + 1.6 * (step * 0.618034 % 1))
        clock.row(step, math.floor(at_s), 2.0)
    run = run_of(clock, builder)
    for start in range(0, 2400, 400):
        assert median(run.rows.ms[start : start + 400]) == pytest.approx(1000 * row_s, rel=0.05)


def test_a_row_that_is_missing_does_not_make_the_others_cover_two() -> None:
    clock, builder = ticking()
    for step, at_s in ((1, 5), (2, 10), (3, 15), (5, 25), (6, 30), (7, 35)):
        clock.row(step, at_s, 2.0)
    assert per_iteration(run_of(clock, builder), "all", lambda _: None).rows_cover == 1
