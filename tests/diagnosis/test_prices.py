from __future__ import annotations

import pytest

from nanopace.diagnosis.prices import Prices, find_prices, most_frequent
from nanopace.diagnosis.rows import find_pace
from nanopace.run import Checkpoint, Evaluation, Row, Rows, Run

from .synthetic import nanogpt_run, rows_run

CONFIG = {"eval_iters": 200, "gradient_accumulation_steps": 32, "batch_size": 16}


def prices_of(run: Run) -> Prices:
    return find_prices(run, find_pace(run))


def test_rows_with_and_without_a_save_are_an_experiment() -> None:
    prices = prices_of(nanogpt_run(saves=lambda iteration: iteration <= 16_500))
    assert prices.evaluations.each_ms == pytest.approx(5140, abs=3)
    assert prices.checkpoints.each_ms == pytest.approx(470, abs=3)
    assert (prices.checkpoints.basis, prices.evaluations.contains_checkpoint) == ("measured", False)
    assert (prices.checkpoints.saved_rows, prices.checkpoints.unsaved_rows, prices.checkpoints.count) == (33, 7, 33)
    assert (prices.evaluations.count, prices.evaluations.visible, prices.evaluations.interval) == (40, 40, 500)


def test_one_row_without_a_save_will_do() -> None:
    prices = prices_of(nanogpt_run(saves=lambda iteration: iteration != 7000))
    assert (prices.checkpoints.basis, prices.checkpoints.unsaved_rows) == ("measured", 1)
    assert prices.checkpoints.each_ms == pytest.approx(470, abs=5)


def test_a_checkpoint_faster_than_nothing_is_bounded() -> None:
    prices = prices_of(rows_run([100.0, 100, 900, 100, 890, 100], evaluated=[2, 4], saved=[4]))
    assert prices.checkpoints.basis == "upper_bound"
    assert prices.checkpoints.low_ms == prices.checkpoint_ms == 0.0
    assert prices.checkpoints.each_ms == prices.checkpoints.high_ms
    assert 0 < (prices.checkpoints.high_ms or 0.0) < 50


def test_where_every_row_saves_the_forward_model_bounds_the_checkpoint() -> None:
    run = nanogpt_run(step_ms=3909.8, evaluation_ms=15_000, checkpoint_ms=280, saves=lambda _: True, facts=CONFIG)
    prices = prices_of(run)
    assert prices.evaluations.predicted_ms == pytest.approx(2 * 200 * 3909.8 / 32 / 3, rel=0.01)
    assert prices.evaluations.each_ms == pytest.approx(15_280, abs=20)
    assert prices.evaluations.contains_checkpoint
    assert prices.checkpoints.basis == "upper_bound"
    assert prices.checkpoints.each_ms is not None
    assert prices.checkpoints.each_ms == pytest.approx(15_280 - 0.3 * 2 * 200 * 3909.8 / 32, abs=60)
    assert prices.checkpoint_ms is None  # a bound is not a price


def test_where_every_row_saves_and_the_config_is_unknown_so_is_the_checkpoint() -> None:
    prices = prices_of(nanogpt_run(saves=lambda _: True))
    assert (prices.checkpoints.each_ms, prices.checkpoints.basis) == (None, "unknown")
    assert prices.evaluations.each_ms == pytest.approx(5610, abs=3)
    assert prices.evaluations.contains_checkpoint


def test_without_any_checkpoint_the_spike_is_the_evaluation() -> None:
    prices = prices_of(nanogpt_run(saves=lambda _: False))
    assert (prices.checkpoints.count, prices.checkpoints.each_ms, prices.checkpoints.basis) == (0, None, "unknown")
    assert prices.evaluations.each_ms == pytest.approx(5140, abs=3)
    assert not prices.evaluations.contains_checkpoint


def test_rows_that_only_save_price_the_checkpoint() -> None:
    times = [100.0] * 20
    times[5], times[10], times[15] = 600.0, 400.0, 400.0
    prices = prices_of(rows_run(times, evaluated=[5], saved=[5, 10, 15]))
    assert prices.checkpoints.each_ms == pytest.approx(300)
    assert prices.evaluations.each_ms == pytest.approx(200)
    assert prices.checkpoints.basis == "measured"


def test_evaluations_between_rows_are_counted() -> None:
    prices = prices_of(nanogpt_run(log_interval=200))
    assert (prices.evaluations.count, prices.evaluations.visible, prices.evaluations.hidden) == (40, 20, 20)


def test_an_evaluation_after_the_last_row_counts() -> None:
    run = rows_run([100.0] * 5)
    late = Run(run.name, run.format, run.rows, evaluations=(Evaluation(20, 4.0, 4.0, row=2), Evaluation(50, 4.0, 4.0)))
    assert [evaluation.iteration for evaluation in prices_of(late).counted] == [20, 50]


def test_a_log_without_its_head_begins_with_an_ordinary_row() -> None:
    prices = prices_of(nanogpt_run(first_iteration=5000, compile_ms=0.0))
    assert prices.cold_rows == frozenset()
    assert prices.evaluations.count == 31
    resumed = prices_of(nanogpt_run(first_iteration=5000))
    assert resumed.cold_rows == {0}
    assert resumed.evaluations.count == 30


def test_several_gpus_share_the_accumulation() -> None:
    single = prices_of(nanogpt_run(facts=CONFIG)).evaluations.predicted_ms
    eight = prices_of(nanogpt_run(facts=CONFIG | {"gpu_count": 8})).evaluations.predicted_ms
    assert single is not None
    assert eight == pytest.approx(8 * single)


def test_a_trainer_that_measured_is_believed() -> None:
    run = Run(
        "ledger",
        "ledger",
        Rows([Row(iteration, 100.0) for iteration in range(10)]),
        evaluations=(Evaluation(0, 4.0, 4.0, ms=50.0), Evaluation(5, 4.0, 4.0, ms=70.0)),
        checkpoints=(Checkpoint(5, ms=3.0, background_ms=900.0),),
        row_contains_evaluation=False,
    )
    prices = prices_of(run)
    assert (prices.evaluations.count, prices.evaluations.each_ms, prices.evaluations.hidden) == (1, 70.0, 0)
    assert (prices.checkpoints.each_ms, prices.checkpoints.basis) == (3.0, "measured")
    assert prices.checkpoints.background_ms == 900.0


def test_the_most_frequent() -> None:
    assert most_frequent([10, 10, 5, 10]) == 10
    assert most_frequent([10, 5]) == 5
    assert most_frequent([]) is None
