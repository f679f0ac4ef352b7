from __future__ import annotations

import math
from dataclasses import replace

import pytest

from nanopace.diagnosis.result import Ahead, Restarts, Wall
from nanopace.diagnosis.time.rows import find_pace
from nanopace.diagnosis.time.slow_rows import break_down_rows
from nanopace.diagnosis.time.time_left import look_ahead
from nanopace.diagnosis.time.wall_time import Clock, account
from nanopace.run import Checkpoint, Evaluation, Restart, Row, Rows, Run, Span

from ..synthetic import known, nanogpt_run, rows_run


def accounted(run: Run) -> tuple[Wall, Restarts, Clock, Ahead]:
    pace = find_pace(run)
    breakdown = break_down_rows(run, pace)
    wall, restarts, clock = account(run, pace, breakdown)
    return wall, restarts, clock, look_ahead(run, pace, breakdown, wall, clock)


def parts(wall: Wall) -> list[float]:
    named = (wall.training_s, wall.evaluation_s, wall.checkpoint_s, wall.startup_s, wall.stall_s, wall.restart_s)
    return [part or 0.0 for part in (*named, wall.unknown_s)]


def test_the_whole_clock_of_a_known_run() -> None:
    wall, _, clock, ahead = accounted(nanogpt_run(noise=0.0, saves=lambda iteration: iteration <= 16_500))
    assert wall.training_s == pytest.approx(20_001 * 0.169)
    assert wall.evaluation_s == pytest.approx(40 * 5.14)
    assert wall.checkpoint_s == pytest.approx(33 * 0.47)
    assert wall.startup_s == pytest.approx(7.2 + 5.14)
    assert (wall.stall_s, wall.restart_s, wall.unknown_s) == (0.0, 0.0, 0.0)
    assert sum(parts(wall)) == pytest.approx(wall.total_s)
    assert clock.row_end_s[-1] == pytest.approx(wall.total_s)
    assert wall.overhead_share == pytest.approx((40 * 5.14 + 33 * 0.47) / wall.total_s)
    assert wall.goodput == pytest.approx(wall.training_s / wall.total_s)
    assert ahead.seconds_per_1000 == pytest.approx(169 + (40 * 5.14 + 33 * 0.47) / 20)


def test_evaluations_between_rows_that_are_unlike_visible_ones_are_unknown() -> None:
    seen, _, _, _ = accounted(nanogpt_run(noise=0.0, log_interval=100))
    unseen, _, clock, _ = accounted(nanogpt_run(noise=0.0, log_interval=200))
    # Every visible one saves; no hidden one does.
    assert clock.hidden_s == 0
    assert (unseen.checkpoint_s, unseen.overhead_share, unseen.unknown_s) == (None, None, None)
    assert unseen.total_s == pytest.approx(seen.total_s - 20 * 5.14)


def test_steps_that_were_lost_take_what_they_took() -> None:
    """The lost process ran at half the speed."""
    pace = lambda iteration: 2.0 if iteration > 6000 else 1.0  # noqa: E731
    slow = accounted(nanogpt_run(noise=0.0, pace=pace, restarts={9950: 6000}))[1]
    assert slow.lost_s > 3900 * 2 * 0.169


@pytest.mark.parametrize(("reached", "lost_s"), [(29, None), (31, 0.2)])
def test_a_restart_costs_something_though_the_log_may_not_show_how_much(reached: int, lost_s: float | None) -> None:
    rows = Rows([Row(iteration, 100.0) for iteration in range(60)])
    run = Run("log", "torchtitan", rows, restarts=(Restart(30, 30, reached),), row_contains_evaluation=False)
    restarts = accounted(run)[1]
    assert (restarts.count, restarts.lost_iterations) == (1, reached - 29)
    assert restarts.lost_s == (lost_s and pytest.approx(lost_s))


def test_hidden_evaluations_are_priced_by_whether_they_saved() -> None:
    wall, _, clock, _ = accounted(nanogpt_run(noise=0.0, log_interval=200, saves=lambda iteration: iteration <= 9500))
    assert wall.evaluation_s == pytest.approx(40 * 5.14)
    assert wall.checkpoint_s == pytest.approx(19 * 0.47)
    assert clock.hidden_s == pytest.approx(20 * 5.14 + 10 * 0.47)


def test_hidden_evaluations_without_a_visible_one_are_unknown() -> None:
    wall, _, _, _ = accounted(nanogpt_run(2500, log_interval=300, eval_interval=1000))
    assert (wall.evaluation_s, wall.checkpoint_s, wall.unknown_s, wall.overhead_share) == (None, None, None, None)
    assert sum(parts(wall)) == pytest.approx(wall.total_s)


def test_or_predicted_where_the_config_is_known() -> None:
    config = {"eval_iters": 200, "gradient_accumulation_steps": 5}
    run = nanogpt_run(2500, log_interval=300, eval_interval=1000, noise=0.0, saves=lambda _: False, facts=config)
    wall, _, _, _ = accounted(run)
    assert wall.evaluation_s == pytest.approx(2 * 2 * 200 * 0.169 / 5 / 3)
    assert wall.unknown_s == 0.0


def test_a_shifted_level_counts_at_its_own_pace() -> None:
    run = nanogpt_run(noise=0.0, eval_interval=0, compile_ms=0, pace=lambda it: 2.0 if it > 15_000 else 1.0)
    wall, _, _, ahead = accounted(run)
    assert wall.training_s == pytest.approx((15_001 + 2 * 5_000) * 0.169, rel=0.005)
    assert ahead.seconds_per_1000 == pytest.approx(338)


def test_stalls_and_uneven_rows() -> None:
    run = nanogpt_run(noise=0.0, eval_interval=0, compile_ms=0, stalls={400: 900.0, 800: 20.0})
    wall, _, _, _ = accounted(run)
    assert wall.stall_s == pytest.approx(0.92)
    assert wall.training_s == pytest.approx(20_001 * 0.169)


def test_a_restart_is_paid_for() -> None:
    wall, restarts, clock, _ = accounted(nanogpt_run(noise=0.0, restarts={5740: 5000}))
    assert (restarts.count, restarts.lost_iterations) == (1, 741)
    lost_rows = 6 * 0.169 + 0.169 + 5.61 + 0.169 + 5.14 + 733 * 0.169  # 5000 and 5500 evaluated
    assert restarts.lost_s == pytest.approx(lost_rows + 7.2 + 5.14, abs=0.01)
    assert wall.restart_s == restarts.lost_s
    assert wall.training_s == pytest.approx(20_001 * 0.169)
    assert clock.row_end_s[-1] == pytest.approx(wall.total_s)
    assert list(clock.row_end_s) == sorted(clock.row_end_s)


def test_a_clock_that_stops_for_evaluations_leaves_them_unknown() -> None:
    rows = Rows([Row(iteration, 100.0) for iteration in range(50)])
    run = Run("log", "nanochat", rows, row_contains_evaluation=False)
    assert accounted(run)[0].unknown_s == 0.0
    run = replace(run, evaluations=(Evaluation(25, None, 0.9, "bpb"),), checkpoints=(Checkpoint(49),))
    wall, _, _, _ = accounted(run)
    assert (wall.evaluation_s, wall.checkpoint_s, wall.unknown_s, wall.overhead_share) == (None, None, None, None)
    assert wall.total_s == pytest.approx(5.0)
    first = replace(run, evaluations=(Evaluation(0, None, 3.2, "bpb"),), checkpoints=())
    assert accounted(first)[0].unknown_s is None


def test_a_ledger_has_measured_everything() -> None:
    run = Run(
        "ledger",
        "ledger",
        Rows([Row(iteration, 100.0) for iteration in range(50)]),
        evaluations=(Evaluation(0, 9.0, 9.0, ms=200.0), Evaluation(25, 4.0, 4.0, ms=300.0)),
        checkpoints=(Checkpoint(25, ms=40.0, background_ms=5000.0),),
        spans=(
            Span("startup", 0, 1000.0),
            Span("compile", 0, 2000.0),
            Span("data", 3, 7.0),  # a part of the step
            Span("stall", 9, 60.0),
            Span("logging", 9, 5.0),
            Span("checkpoint", 25, 5000.0, background=True),
        ),
        row_contains_evaluation=False,
        wall_ms=9000.0,
    )
    wall, _, clock, _ = accounted(run)
    assert wall.measured
    assert wall.total_s == 9.0
    assert (wall.training_s, wall.evaluation_s, wall.checkpoint_s) == pytest.approx((5.0, 0.5, 0.04))
    assert (wall.startup_s, wall.stall_s, wall.other_s) == pytest.approx((3.0, 0.06, 0.005))
    assert wall.unknown_s == pytest.approx(9.0 - 8.605)
    assert wall.overhead_share == pytest.approx(0.54 / 9)
    assert clock.row_end_s[0] == pytest.approx(3.3)
    assert clock.row_end_s[25] == pytest.approx(3.2 + 2.6 + 0.3 + 0.04 + 0.065)


def test_where_no_row_is_a_step_only_the_rows_are_added_up() -> None:
    wall, _, _, ahead = accounted(rows_run([9000.0] + [1000.0] * 5, evaluated=range(6), facts={"max_iters": 100}))
    assert wall.total_s == 14.0
    assert (wall.evaluation_s, wall.unknown_s, ahead.eta_s) == (None, None, None)


def test_time_to_go() -> None:
    run = replace(nanogpt_run(1000, noise=0.0, eval_interval=0), facts=known({"max_iters": 3000}))
    ahead = accounted(run)[3]
    assert (ahead.max_iters, ahead.remaining_iterations) == (3000, 2000)
    assert ahead.eta_s == pytest.approx(2000 * 0.169)
    assert accounted(nanogpt_run(1000))[3].eta_s is None


def test_a_folded_row_counts_all_its_rows_and_what_lies_between() -> None:
    rows = Rows([Row(0, 10.0), Row(10, 10.0, count=100, last_iteration=1000, sum_ms=1005.0)])
    for iteration in range(1010, 1100, 10):
        rows.append(Row(iteration, 10.0))
    wall, _, _, _ = accounted(Run("log", "nanogpt", rows))
    assert math.isclose(wall.total_s, (1091 * 10 + 5) / 1000)


def covering(evaluates: int) -> Run:
    """Steps of 100 ms, 5 s of evaluation every `evaluates` iterations, and rows that are means over 100 iterations."""
    iterations = range(0, 2001, 100)
    evaluated = [iteration for iteration in iterations if iteration % evaluates == 0]
    rows = [Row(each, 100.0 + (5000.0 if each in evaluated else 0.0) / (100 if each else 1)) for each in iterations]
    marks = tuple(Evaluation(iteration, None, 4.0, row=iteration // 100) for iteration in evaluated)
    return Run("train.log", "nanogpt", Rows(rows), marks, rows_cover=100)


def test_a_time_that_covers_many_iterations_is_all_of_them() -> None:
    wall, _, _, _ = accounted(covering(500))
    assert wall.training_s == pytest.approx(2001 * 0.1)
    assert wall.evaluation_s == pytest.approx(4 * 5.0)
    assert wall.startup_s == pytest.approx(5.0)
    assert wall.total_s == pytest.approx(2001 * 0.1 + 5 * 5.0)


def test_where_every_such_row_evaluates_the_total_is_still_exact() -> None:
    run = covering(100)
    wall, _, _, _ = accounted(run)
    assert find_pace(run).basis == "none"
    assert wall.total_s == pytest.approx(2001 * 0.1 + 21 * 5.0)


def test_what_such_rows_lost_to_a_restart_is_all_of_them() -> None:
    run = covering(5000)
    lost = Rows([Row(1000, 100.0), Row(1100, 100.0)])
    run = replace(run, restarts=(Restart(10, 1000, 1100, lost),))
    _, restarts, _, _ = accounted(run)
    assert restarts.lost_s == pytest.approx(200 * 0.1, rel=0.01)


def test_what_comes_after_the_last_row_counts() -> None:
    run = nanogpt_run(noise=0.0, saves=lambda iteration: iteration <= 9500)
    before, *_ = accounted(run)
    final = (*run.evaluations, Evaluation(20_010, 4.0, 4.0))
    wall, _, clock, _ = accounted(replace(run, evaluations=final, checkpoints=(*run.checkpoints, Checkpoint(20_010))))
    assert wall.training_s == pytest.approx(before.training_s + 9 * 0.169)
    assert wall.evaluation_s == pytest.approx((before.evaluation_s or 0.0) + 5.14)
    assert wall.checkpoint_s == pytest.approx((before.checkpoint_s or 0.0) + 0.47)
    assert sum(parts(wall)) == pytest.approx(wall.total_s)
    assert clock.after_s == pytest.approx(5.61)
    assert clock.hidden_s == 0.0


def test_hidden_evaluations_take_what_they_take_at_their_speed() -> None:
    evaluated = dict.fromkeys(range(500, 10000, 500), 5140.0)  # twice as long in the first half, as steps are
    run = nanogpt_run(
        noise=0.0, log_interval=200, saves=lambda _: False, stalls=evaluated,
        pace=lambda it: 2.0 if it < 10_000 else 1.0,
    )  # fmt: skip
    wall, _, clock, _ = accounted(run)
    assert clock.hidden_s == pytest.approx(10 * 10.28 + 10 * 5.14, rel=0.001)
    assert wall.stall_s == pytest.approx(0.0, abs=1)


def test_a_first_row_like_the_others_is_training() -> None:
    wall, *_ = accounted(nanogpt_run(first_iteration=5100, compile_ms=0.0, noise=0.01))
    assert wall.startup_s == 0.0
    assert sum(parts(wall)) == pytest.approx(wall.total_s)


def test_what_is_to_come_does_not_have_the_first_evaluation_of_a_ledger() -> None:
    run = Run(
        "ledger",
        "ledger",
        Rows([Row(iteration, 100.0) for iteration in range(101)]),
        evaluations=(Evaluation(0, 4.0, 4.0, ms=9000.0), *(Evaluation(at, 4.0, 4.0, ms=500.0) for at in (50, 100))),
        row_contains_evaluation=False,
    )
    assert accounted(run)[3].seconds_per_1000 == pytest.approx(100 + 1000 / 50 * 0.5)


def test_rows_that_cover_several_iterations_are_the_whole_clock() -> None:
    run = rows_run([2900.0] + [164.0] * 10, log_interval=100, evaluated=range(11))
    assert accounted(run)[0].total_s == pytest.approx(4.54)
    assert accounted(replace(run, rows_cover=100))[0].total_s == pytest.approx(2.9 + 1000 * 0.164)
