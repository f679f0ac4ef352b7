"""Stalls that recur, also where an evaluation is due."""

from __future__ import annotations

import pytest

from nanopace.diagnosis.diagnose import diagnose
from nanopace.diagnosis.time.rows import find_pace
from nanopace.diagnosis.time.slow_rows import Breakdown, break_down_rows
from nanopace.record import replace
from nanopace.run import Row, Rows, Run

from ..odd_runs import folded
from ..synthetic import nanogpt_run, rows_run


def breakdown_of(run: Run) -> Breakdown:
    return break_down_rows(run, find_pace(run))


STALLED = dict.fromkeys(range(400, 20_001, 400), 900.0)


@pytest.mark.parametrize(
    "run",
    [
        nanogpt_run(stalls=STALLED, saves=lambda _: False),
        folded(nanogpt_run(log_interval=10, stalls=STALLED, saves=lambda _: False)),
    ],
    ids=["every row", "folded"],
)
def test_an_evaluation_row_contains_the_stall_that_is_due_there(run: Run) -> None:
    found = breakdown_of(run)
    assert found.period == 400
    assert found.costs.evaluations.each_ms == pytest.approx(5140, abs=5)
    parts = {row.iteration: row.parts_ms for row in found.slow_rows}
    assert parts[2000] == {"evaluation": pytest.approx(5140, abs=5), "periodic": pytest.approx(900, abs=5)}
    assert parts[500] == {"evaluation": pytest.approx(5140, abs=5)}


def test_evaluations_off_the_beat_show_that_the_rhythm_is_finer() -> None:
    stalls = dict.fromkeys(range(300, 6001, 300), 900.0)
    found = breakdown_of(nanogpt_run(6000, log_interval=10, eval_interval=200, stalls=stalls, saves=lambda _: False))
    assert found.period == 300
    assert found.costs.evaluations.each_ms == pytest.approx(5140, abs=5)


@pytest.mark.parametrize(("eval_interval", "evaluation_ms"), [(200, 5140.0), (600, 5140.0), (600, 700.0), (600, 50.0)])
def test_without_them_it_is_what_the_rows_show(eval_interval: int, evaluation_ms: float) -> None:
    """Whether evaluations at 600, 1200 ... contain a stall, nothing shows, and those that take as long as others do
    not."""
    stalls = dict.fromkeys(range(300, 6001, 600), 900.0)
    found = breakdown_of(
        nanogpt_run(
            6000, log_interval=10, eval_interval=eval_interval, evaluation_ms=evaluation_ms, stalls=stalls,
            saves=lambda _: False,
        )
    )  # fmt: skip
    assert found.period == 600
    assert found.costs.evaluations.each_ms == pytest.approx(evaluation_ms, abs=5)


def test_where_rows_cover_several_iterations_the_stall_is_subtracted_once() -> None:
    stalls = dict.fromkeys(range(40, 2001, 40), 5000.0)
    run = nanogpt_run(2000, log_interval=10, eval_interval=50, evaluation_ms=8000.0, stalls=stalls)
    times = [row.ms if not row.iteration else 170.0 + (row.ms - 170.0) / 10 for row in run.rows]
    rows = Rows(Row(row.iteration, ms) for row, ms in zip(run.rows, times, strict=True))
    found = breakdown_of(replace(run, rows=rows, rows_cover=10, rows_cover_shown_by="tokens", checkpoints=()))
    parts = {row.iteration: row.parts_ms for row in found.slow_rows}
    assert parts[200] == {"evaluation": pytest.approx(8000, abs=50), "periodic": pytest.approx(5000, abs=50)}


def test_at_a_change_of_speed_the_stalls_of_this_speed_count() -> None:
    stalls = {iteration: 900.0 if iteration < 10_000 else 1800.0 for iteration in range(400, 20_001, 400)}
    run = nanogpt_run(stalls=stalls, saves=lambda _: False, pace=lambda iteration: 1.0 if iteration < 10_000 else 2.0)
    parts = {row.iteration: row.parts_ms for row in breakdown_of(run).slow_rows}
    assert parts[8000]["periodic"] == pytest.approx(900, abs=10)
    assert parts[10_000]["periodic"] == pytest.approx(1800, abs=10)


def test_a_row_that_took_no_longer_than_the_stall_says_nothing_of_an_evaluation() -> None:
    stalled, evaluated = range(2, 100, 7), (9, 30, 51, 72)
    run = rows_run([900.0 if index in stalled else 100.0 + index % 3 for index in range(100)], evaluated=evaluated)
    assert breakdown_of(run).costs.evaluations.each_ms is None
    assert "evaluation_rows" not in {finding.code for finding in diagnose(run).findings}


def test_one_stall_a_little_longer_than_the_others_is_no_second_one() -> None:
    stalls = STALLED | {10_000: 1200.0}
    found = breakdown_of(nanogpt_run(stalls=stalls, saves=lambda _: False, evaluation_ms=100.0))
    (row,) = [row for row in found.slow_rows if row.iteration == 10_000]
    assert set(row.causes) == {"evaluation", "periodic"}
    assert row.parts_ms["periodic"] == pytest.approx(1200, abs=5)


@pytest.mark.parametrize(("slower_ms", "period"), [(9000.0, 250), (1000.0, None)])
def test_of_two_things_that_recur_the_slower_one_has_its_rhythm(slower_ms: float, period: int | None) -> None:
    """Evaluations whose lines were removed every 250 steps, and data shards every 190.7 of them."""
    times = [100.0] * 2000
    for shard in range(1, 11):
        times[round(190.7 * shard)] += 600.0
    for step in range(250, 2000, 250):
        times[step] += slower_ms
    found = breakdown_of(rows_run(times, log_interval=1))
    assert found.period == period  # if both take about as long, nothing tells them apart
    if period is not None:
        periodic = [row.iteration for row in found.slow_rows if "periodic" in row.causes]
        assert periodic == list(range(250, 2000, 250))
