from __future__ import annotations

from dataclasses import fields, replace

import pytest

from nanopace.diagnosis.curves import MOST_OF_A_CAUSE
from nanopace.diagnosis.diagnose import diagnose
from nanopace.diagnosis.result import Curves
from nanopace.run import Checkpoint, Evaluation, Row, Rows, Run, Span

from .synthetic import nanogpt_run, rows_run


def curves_of(run: Run) -> Curves:
    return diagnose(run).curves


def test_a_short_run_is_drawn_whole() -> None:
    run = nanogpt_run(noise=0.0, saves=lambda iteration: iteration <= 16_500)
    diagnosis = diagnose(run)
    curves = diagnosis.curves
    assert curves.row_iteration == tuple(run.rows.iteration)
    assert curves.row_cause[:7] == ("compile", None, None, None, None, "evaluation", None)
    assert curves.row_seconds[-1] == pytest.approx(diagnosis.wall.total_s)
    assert curves.row_mfu_printed[0] is None
    assert curves.row_mfu_true[5] == pytest.approx(0.1206, rel=1e-5)  # its step was as fast as the others
    assert curves.eval_iteration == tuple(range(0, 20_001, 500))
    assert (curves.eval_saved[0], curves.eval_saved[1], curves.eval_saved[-1]) == (False, True, False)


def test_columns_are_parallel() -> None:
    curves = curves_of(nanogpt_run(log_interval=200))
    lengths = {field.name: len(getattr(curves, field.name)) for field in fields(curves)}
    assert {length for name, length in lengths.items() if name.startswith("row_")} == {101}
    assert {length for name, length in lengths.items() if name.startswith("eval_")} == {41}


@pytest.mark.parametrize("log_interval", [100, 200, 300])
def test_evaluations_stand_where_they_ended(log_interval: int) -> None:
    """Hidden or visible, an evaluation ends at the same time: before the step of its iteration."""
    run = nanogpt_run(19_900, noise=0.0, saves=lambda _: False, log_interval=log_interval, compile_ms=0.0)
    curves = curves_of(run)
    expected = [0.169 * iteration + 5.14 * (1 + number) for number, iteration in enumerate(curves.eval_iteration)]
    assert list(curves.eval_seconds) == pytest.approx(expected, abs=0.01)


def test_an_evaluation_after_the_last_row_has_its_time_too() -> None:
    run = rows_run([100.0] * 11, log_interval=1)
    run = replace(run, evaluations=(Evaluation(5, 4.0, 4.0), Evaluation(20, 3.0, 3.0)), row_contains_evaluation=False)
    assert curves_of(run).eval_seconds == pytest.approx((0.5, 2.0))


def test_waits_for_checkpoints_stand_where_they_ended_the_last_one_at_the_end() -> None:
    """Saved, evaluated, and then waited for: an evaluation's end does not include what came after it."""
    run = Run(
        "ledger",
        "ledger",
        Rows([Row(iteration, 100.0) for iteration in range(10)]),
        evaluations=(Evaluation(0, None, 5.0, ms=300.0), Evaluation(10, None, 4.0, ms=300.0)),
        checkpoints=(Checkpoint(5, ms=20.0, background_ms=900.0), Checkpoint(10, ms=30.0)),
        spans=(Span("startup", 0, 2000.0), Span("other", 0, 7.0), Span("checkpoint", 10, 5000.0)),
        row_contains_evaluation=False,
        wall_ms=8_657.0,
    )
    diagnosis = diagnose(run)
    curves = diagnosis.curves
    assert curves.eval_seconds == pytest.approx((2.3, 3.657))
    assert curves.save_ms == (20.0, 30.0, 5000.0)
    assert curves.save_seconds == pytest.approx((2.827, 3.357, 8.657))
    assert diagnosis.wall.checkpoint_s == pytest.approx(sum(curves.save_ms) / 1000)
    assert curves_of(nanogpt_run()).save_ms == ()  # in its rows


@pytest.mark.usefixtures("untraced")
def test_a_long_run_is_thinned_and_keeps_its_slow_rows() -> None:
    """Of 2,000 normal rows, 300 are extremes (here the first row of each stretch, since all are equal), and the other
    1,700 stand at even distances from the first row to the last."""
    slow = range(501, 30_000, 1000)
    normal = [index for index in range(30_000) if index not in slow]
    curves = curves_of(rows_run([700.0 if index in slow else 100.0 for index in range(30_000)], log_interval=1))
    extremes = {normal[stretch * 29_970 // 300] for stretch in range(300)}
    even = {normal[place * 29_969 // 1_699] for place in range(1_700)}
    assert curves.row_iteration == tuple(sorted({*slow, *extremes, *even}))
    assert len(curves.row_iteration) == 2_013  # 17 of the even ones are extremes, too
    caused = zip(curves.row_iteration, curves.row_cause, strict=True)
    assert [iteration for iteration, cause in caused if cause is not None] == [*slow]


@pytest.mark.usefixtures("untraced")
def test_of_too_many_slow_rows_the_largest_of_neighbours_are_kept() -> None:
    """Not the largest of all: the part of the run with smaller ones would seem to have none."""
    times = [100.0] * 30_000
    for index in range(1, 30_000, 10):
        times[index] = 200.0 + index
    curves = curves_of(rows_run(times, log_interval=1))
    shown = [ms for ms, cause in zip(curves.row_ms, curves.row_cause, strict=True) if cause]
    assert len(shown) == MOST_OF_A_CAUSE
    assert shown == [200.0 + index for index in range(21, 30_000, 30)]  # the last of every three


def test_evaluations_inside_a_folded_row() -> None:
    rows = Rows([Row(0, 10.0), Row(1, 10.0, count=1000, last_iteration=1000, sum_ms=10_000.0), Row(1001, 10.0)])
    run = Run("log", "nanogpt", rows, evaluations=(Evaluation(500, 4.0, 4.0),), row_contains_evaluation=False)
    assert curves_of(run).eval_seconds == pytest.approx((5.0,), abs=0.02)


def test_of_very_many_slow_rows_the_longest_and_the_rare_are_drawn() -> None:
    times = [100.0 if n % 5 else 3000.0 for n in range(20_000)]
    times[12_345] = 9000.0
    times[7_001] = 700.0
    evaluated = range(0, 20_000, 5)
    curves = curves_of(rows_run(times, log_interval=1, evaluated=evaluated))
    by_iteration = dict(zip(curves.row_iteration, zip(curves.row_ms, curves.row_cause, strict=True), strict=True))
    assert by_iteration[12_345][0] == 9000.0
    assert by_iteration[7_001] == (700.0, "stall")
