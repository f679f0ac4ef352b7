from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nanopace.diagnosis.result import SlowRow
from nanopace.diagnosis.time.rows import find_pace
from nanopace.diagnosis.time.slow_rows import Breakdown, break_down_rows
from nanopace.run import Row, Rows, Run

from ..synthetic import nanogpt_run, rows_run


def breakdown_of(run: Run) -> Breakdown:
    return break_down_rows(run, find_pace(run))


def by_iteration(run: Run) -> dict[int, SlowRow]:
    return {row.iteration: row for row in breakdown_of(run).slow_rows}


def test_each_slow_row_has_its_causes() -> None:
    rows = by_iteration(nanogpt_run(saves=lambda iteration: iteration <= 16_500))
    assert rows[0].causes == ("compile", "evaluation")
    assert rows[500].causes == ("evaluation", "checkpoint")
    assert rows[20_000].causes == ("evaluation",)
    assert rows[500].parts_ms["evaluation"] == pytest.approx(5140, abs=5)
    assert rows[500].parts_ms["checkpoint"] == pytest.approx(470, abs=5)
    assert sum("checkpoint" in row.causes for row in rows.values()) == 33


def test_what_cannot_be_told_apart_stays_together() -> None:
    row = by_iteration(nanogpt_run(saves=lambda _: True))[1000]
    assert row.causes == ("evaluation", "checkpoint")
    assert dict(row.parts_ms) == {"evaluation": row.excess_ms}


@pytest.mark.parametrize(
    ("run", "evaluation_ms", "compile_ms", "together_ms"),
    [
        (nanogpt_run(), 5140.0, 7200.0, 12_340.0),
        (nanogpt_run(400), None, None, 12_340.0),  # without a cost for evaluations it is not split
        (nanogpt_run(eval_interval=0), 0.0, 7200.0, 7200.0),
    ],
)
def test_startup_is_a_step_an_evaluation_and_the_rest(
    run: Run, evaluation_ms: float | None, compile_ms: float | None, together_ms: float
) -> None:
    startup = breakdown_of(run).startup
    assert startup is not None
    assert startup.evaluation_ms == (evaluation_ms and pytest.approx(evaluation_ms, abs=5))
    assert startup.compile_ms == (compile_ms and pytest.approx(compile_ms, abs=10))
    assert startup.total_ms == pytest.approx(startup.step_ms + together_ms, abs=10)


def test_no_startup_where_the_first_row_is_a_step() -> None:
    assert breakdown_of(nanogpt_run(eval_interval=0, compile_ms=0)).startup is None


def test_rows_right_after_the_first_still_compile() -> None:
    times = [30_000.0, 9000.0, 800.0, *[300.0] * 30]
    assert [row.causes for row in breakdown_of(rows_run(times, log_interval=1)).slow_rows] == [("compile",)] * 3


def test_stalls_that_recur_are_periodic() -> None:
    stalls = dict.fromkeys(range(700, 20_000, 700), 900.0)
    breakdown = breakdown_of(nanogpt_run(eval_interval=0, stalls={**stalls, 1300: 2000.0}))
    causes = {row.iteration: row.causes for row in breakdown.slow_rows if row.iteration}
    assert breakdown.period == 700
    assert causes.pop(1300) == ("stall",)
    assert list(causes) == list(stalls)
    assert set(causes.values()) == {("periodic",)}


@pytest.mark.parametrize(
    "held",
    [
        (400, 1100, 4200, 4700, 9900, 15_100),
        (5000, 5100, 5200, 5300),  # one after the other
        (1100, 2600, 4100),  # as far apart, which may be chance
    ],
)
def test_stalls_without_a_rhythm_are_stalls(held: tuple[int, ...]) -> None:
    breakdown = breakdown_of(nanogpt_run(eval_interval=0, stalls=dict.fromkeys(held, 900.0)))
    assert breakdown.period is None
    assert {row.causes for row in breakdown.slow_rows if row.iteration} == {("stall",)}


def test_a_rhythm_that_all_plain_rows_have_is_only_the_log_s() -> None:
    """Every other row evaluates, so the rest are evenly spaced anyway."""
    times = [5000.0, *(100.0 if index % 2 else 900.0 for index in range(1, 40))]
    for held in (15, 17, 19, 23):
        times[held] = 160.0
    run = rows_run(times, evaluated=range(0, 40, 2))
    assert breakdown_of(run).period is None


def test_an_evaluation_row_where_a_slower_level_begins_is_not_held_up() -> None:
    run = nanogpt_run(pace=lambda iteration: 2.2 if iteration >= 10_000 else 1.0)
    assert not any("stall" in row.causes for row in breakdown_of(run).slow_rows)


def test_a_stall_inside_an_evaluation_row_is_told_apart() -> None:
    row = by_iteration(nanogpt_run(stalls={7500: 60_000.0}))[7500]
    assert row.causes == ("evaluation", "stall")
    assert row.parts_ms["stall"] == pytest.approx(60_000, abs=10)


def test_a_row_that_only_saves() -> None:
    times = [100.0] * 20
    times[10] = 400.0
    (row,) = breakdown_of(rows_run(times, saved=[10])).slow_rows
    assert row.causes == ("checkpoint",)
    assert dict(row.parts_ms) == pytest.approx({"checkpoint": 300.0})


def test_the_first_row_after_a_restart() -> None:
    row = by_iteration(nanogpt_run(restarts={5740: 5000}))[5000]
    assert row.causes == ("restart", "evaluation")
    assert row.parts_ms["restart"] == pytest.approx(7200, abs=10)


@pytest.mark.parametrize(
    ("fetched", "delayed"),
    [
        ((30, 90, 95, 150), 3),
        ((30, 90, 150), 3),
        ((30, 90), 0),  # two of three may be chance
        ((30,), 0),
        (range(0, 200, 2), 0),  # every other row contains one
        ((31, 91), 0),
    ],
)
def test_slow_rows_that_contain_a_fetch_more_often_than_chance(fetched: Collection[int], delayed: int) -> None:
    times = [150.0 if index in (30, 90, 150) else 100.0 for index in range(200)]
    run = replace(rows_run(times), fetches=tuple(10 * index for index in fetched))
    causes = [row.causes for row in breakdown_of(run).slow_rows]
    assert sorted(causes) == [("data",)] * delayed + [("stall",)] * (3 - delayed)


def test_a_row_that_is_long_enough_contains_a_fetch_whatever_delayed_it() -> None:
    """These take most of the run's time."""
    times = [180_000.0 if index in (30, 90, 150) else 1000.0 for index in range(200)]
    run = replace(rows_run(times), fetches=(300, 900, 1500))
    assert {row.causes for row in breakdown_of(run).slow_rows} == {("stall",)}


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_parts_sum_to_the_excess(data: st.DataObject) -> None:
    times = data.draw(st.lists(st.floats(0.01, 1e5), min_size=1, max_size=40))
    indices = st.sets(st.integers(0, len(times) - 1))
    run = rows_run(times, evaluated=data.draw(indices), saved=data.draw(indices))
    for row in breakdown_of(run).slow_rows:
        assert sum(row.parts_ms.values()) == pytest.approx(row.excess_ms)
        assert min(row.parts_ms.values()) >= 0
        assert set(row.parts_ms) <= set(row.causes)


def test_a_first_row_that_is_hardly_slower_is_a_start_all_the_same() -> None:
    """Its evaluation does not count as overhead."""
    run = nanogpt_run(noise=0.0, step_ms=20_000.0, evaluation_ms=2000.0, compile_ms=0.0, iterations=4000)
    pace = find_pace(run)
    breakdown = break_down_rows(run, pace)
    assert breakdown.startup is None
    assert 0 in breakdown.costs.cold_rows


def test_of_folded_rows_the_parts_are_those_of_one() -> None:
    rows = [Row(at, 100.0) for at in range(40)] + [Row(40, 900.0, None, None, 3, 42, 2700.0)]
    run = Run("train.log", "nanogpt", Rows([*rows, *(Row(at, 100.0) for at in range(43, 80))]))
    (slow,) = breakdown_of(run).slow_rows
    assert (slow.iteration, slow.count, slow.excess_ms) == (42, 3, pytest.approx(800.0))
    assert slow.parts_ms == {"stall": pytest.approx(800.0)}


def test_steps_that_take_no_time_as_printed() -> None:
    found = breakdown_of(rows_run([0.0, 0.0, 0.0, 7.0, 0.0, 0.0, 0.0, 9.0, 0.0], evaluated=(3, 7)))
    assert {row.causes for row in found.slow_rows} == {("evaluation",)}


def test_a_later_process_warms_up_like_the_first() -> None:
    """Its second row is slow, that of the first process was not: this is no warm-up."""
    run = nanogpt_run(6000, restarts={3000: 2000}, stalls={2100: 900.0}, saves=lambda _: True)
    rows = by_iteration(run)
    assert rows[2000].causes[0] == "restart"
    assert rows[2100].causes == ("stall",)
    both = nanogpt_run(6000, restarts={3000: 2000}, stalls={100: 900.0, 2100: 900.0}, saves=lambda _: True)
    assert by_iteration(both)[2100].causes == ("restart",)


def test_without_plain_rows_the_first_row_of_a_slower_level_with_a_save_is_no_stall() -> None:
    times = [*[85.0, 86.0] * 20, *[185.0, 186.0] * 20]
    saved = (5, 10, 15, 20, 25, 30, 35, 42, 43)
    assert not [row for row in breakdown_of(rows_run(times, evaluated=range(80), saved=saved)).slow_rows if row.causes]
    times[60] = 700.0
    (row,) = breakdown_of(rows_run(times, evaluated=range(80), saved=saved)).slow_rows
    assert row.parts_ms["stall"] == pytest.approx(515, abs=2)
