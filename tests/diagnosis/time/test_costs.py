from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from nanopace.diagnosis.diagnose import diagnose
from nanopace.diagnosis.time.costs import Costs, find_costs
from nanopace.diagnosis.time.counting import most_frequent
from nanopace.diagnosis.time.rows import find_pace
from nanopace.record import replace
from nanopace.run import Checkpoint, Evaluation, Fact, Row, Rows, Run

from ..synthetic import nanogpt_run, rows_run

CONFIG = {"eval_iters": 200, "gradient_accumulation_steps": 32, "batch_size": 16}


def with_head(run: Run, known: str = "parameters", value: int = 10_650_000) -> Run:
    """As if the log had nanoGPT's header, or another trainer's."""
    return replace(run, facts={**run.facts, known: Fact(value, "log")})


def costs_of(run: Run) -> Costs:
    return find_costs(run, find_pace(run))


def test_rows_with_and_without_a_save_are_an_experiment() -> None:
    costs = costs_of(nanogpt_run(saves=lambda iteration: iteration <= 16_500))
    assert costs.evaluations.each_ms == pytest.approx(5140, abs=3)
    assert costs.checkpoints.each_ms == pytest.approx(470, abs=3)
    assert (costs.checkpoints.basis, costs.evaluations.contains_checkpoint) == ("measured", False)
    assert (costs.checkpoints.saved_rows, costs.checkpoints.unsaved_rows, costs.checkpoints.count) == (33, 7, 33)
    assert (costs.evaluations.count, costs.evaluations.visible, costs.evaluations.interval) == (40, 40, 500)


def test_three_rows_without_a_save_will_do() -> None:
    costs = costs_of(nanogpt_run(saves=lambda iteration: iteration not in (3000, 7000, 9000)))
    assert (costs.checkpoints.basis, costs.checkpoints.unsaved_rows) == ("measured", 3)
    assert costs.checkpoints.each_ms == pytest.approx(470, abs=5)


def test_one_row_without_a_save_may_have_been_held_up() -> None:
    costs = costs_of(nanogpt_run(saves=lambda iteration: iteration != 7000, stalls={7000: 2000.0}))
    assert (costs.checkpoints.basis, costs.evaluations.contains_checkpoint) == ("unknown", True)
    assert costs.evaluations.each_ms == pytest.approx(5610, abs=5)


def test_evaluations_of_nan_are_not_compared_with_others() -> None:
    run = nanogpt_run(saves=lambda iteration: iteration <= 9000)
    gone = [each if each.iteration <= 9000 else replace(each, val=math.nan) for each in run.evaluations]
    costs = costs_of(replace(run, evaluations=tuple(gone)))
    assert (costs.checkpoints.each_ms, costs.evaluations.contains_checkpoint) == (None, True)


def test_what_no_row_shows_the_like_of_has_no_cost() -> None:
    run = nanogpt_run(log_interval=200, saves=lambda iteration: iteration % 1000 == 0)  # hidden ones never save
    costs = costs_of(run)
    assert costs.evaluations.contains_checkpoint
    assert len(costs.without_cost) == costs.evaluations.hidden == 20
    some = costs_of(nanogpt_run(log_interval=200, saves=lambda iteration: iteration % 1000 == 0 and iteration < 15_000))
    assert not some.without_cost


def test_a_checkpoint_faster_than_nothing_is_bounded() -> None:
    times = [100.0, 100, 900, 100, 890, 100, 905, 100, 895]
    costs = costs_of(rows_run(times, evaluated=[2, 4, 6, 8], saved=[4]))
    assert costs.checkpoints.basis == "upper_bound"
    assert costs.checkpoints.low_ms == costs.checkpoint_ms == 0.0
    assert 0 < (costs.checkpoints.each_ms or 0.0) < 50


def test_where_every_row_saves_the_forward_model_bounds_the_checkpoint() -> None:
    run = nanogpt_run(step_ms=3909.8, evaluation_ms=15_000, checkpoint_ms=280, saves=lambda _: True, facts=CONFIG)
    costs = costs_of(run)
    assert costs.evaluations.predicted_ms == pytest.approx(2 * 200 * 3909.8 / 32 / 3, rel=0.01)
    assert costs.evaluations.each_ms == pytest.approx(15_280, abs=20)
    assert costs.evaluations.contains_checkpoint
    assert costs.checkpoints.basis == "upper_bound"
    assert costs.checkpoints.each_ms is not None
    assert costs.checkpoints.each_ms == pytest.approx(15_280 - 0.3 * 2 * 200 * 3909.8 / 32, abs=60)
    assert costs.checkpoint_ms is None  # a bound is not a cost


def test_where_every_row_saves_and_the_config_is_unknown_so_is_the_checkpoint() -> None:
    costs = costs_of(nanogpt_run(saves=lambda _: True))
    assert (costs.checkpoints.each_ms, costs.checkpoints.basis) == (None, "unknown")
    assert costs.evaluations.each_ms == pytest.approx(5610, abs=3)
    assert costs.evaluations.contains_checkpoint


def test_without_any_checkpoint_the_spike_is_the_evaluation() -> None:
    costs = costs_of(nanogpt_run(saves=lambda _: False))
    assert (costs.checkpoints.count, costs.checkpoints.each_ms, costs.checkpoints.basis) == (0, None, "unknown")
    assert costs.evaluations.each_ms == pytest.approx(5140, abs=3)
    assert not costs.evaluations.contains_checkpoint


def test_rows_that_only_save_tell_the_cost_of_the_checkpoint() -> None:
    times = [100.0] * 20
    times[5], times[10], times[15] = 600.0, 400.0, 400.0
    costs = costs_of(rows_run(times, evaluated=[5], saved=[5, 10, 15]))
    assert costs.checkpoints.each_ms == pytest.approx(300)
    assert costs.evaluations.each_ms == pytest.approx(200)
    assert costs.checkpoints.basis == "measured"


def test_evaluations_between_rows_are_counted() -> None:
    costs = costs_of(nanogpt_run(log_interval=200))
    assert (costs.evaluations.count, costs.evaluations.visible, costs.evaluations.hidden) == (40, 20, 20)


def test_an_evaluation_after_the_last_row_counts() -> None:
    run = rows_run([100.0] * 5)
    late = Run(run.name, run.format, run.rows, evaluations=(Evaluation(20, 4.0, 4.0, row=2), Evaluation(50, 4.0, 4.0)))
    assert [evaluation.iteration for evaluation in costs_of(late).counted] == [20, 50]


@pytest.mark.parametrize(("first", "evaluations"), [(5000, 31), (5100, 30)])  # with an evaluation, and without
def test_a_log_without_its_head_begins_with_an_ordinary_row(first: int, evaluations: int) -> None:
    plain = nanogpt_run(first_iteration=first, compile_ms=0.0)
    slow = nanogpt_run(first_iteration=first)  # for an unknown reason: nothing shows a start
    for run in (plain, slow):
        assert (costs_of(run).cold_rows, costs_of(run).evaluations.count) == (frozenset(), evaluations)
    for resumed in (costs_of(with_head(slow)), costs_of(with_head(slow, "n_layer", 12))):
        assert (resumed.cold_rows, resumed.evaluations.count) == ({0}, 30)


def test_several_gpus_share_the_accumulation() -> None:
    single = costs_of(nanogpt_run(facts=CONFIG)).evaluations.predicted_ms
    eight = costs_of(nanogpt_run(facts=CONFIG | {"gpu_count": 8})).evaluations.predicted_ms
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
    costs = costs_of(run)
    assert (costs.evaluations.count, costs.evaluations.each_ms, costs.evaluations.hidden) == (1, 70.0, 0)
    assert (costs.checkpoints.each_ms, costs.checkpoints.basis) == (3.0, "measured")
    assert costs.checkpoints.background_ms == 900.0


def test_the_most_frequent() -> None:
    assert most_frequent([10, 10, 5, 10]) == 10
    assert most_frequent([10, 5]) == 5
    assert most_frequent([]) is None


# --- speeds, the first row and the last ------------------------------------------------------------------------------


def two_speeds(saves: Callable[[int], bool], *, checkpoint_ms: float = 60.0) -> Run:
    """Steps of 100 ms, and of 60 ms from iteration 10,000 on; an evaluation takes as long as 50 steps."""
    slower = dict.fromkeys(range(500, 10_000, 500), 2000.0)
    pace = {True: 5 / 3, False: 1.0}
    return nanogpt_run(
        step_ms=60.0,
        evaluation_ms=3000.0,
        checkpoint_ms=checkpoint_ms,
        compile_ms=9000.0,
        saves=saves,
        pace=lambda iteration: pace[iteration < 10_000],
        stalls=slower,
    )


def test_saves_that_cluster_at_one_speed_do_not_bend_their_cost() -> None:
    costs = costs_of(two_speeds(lambda it: it % 2500 != 0 if it < 10_000 else it in (11_000, 14_500)))
    checkpoints = costs.checkpoints
    assert checkpoints.basis == "measured"
    assert checkpoints.each_ms == pytest.approx(60, abs=5)
    assert (checkpoints.low_ms or 0.0) < 62
    assert (checkpoints.high_ms or 0.0) > 58
    assert costs.evaluation_at(60.0) == pytest.approx(3000, rel=0.01)
    assert costs.evaluation_at(100.0) == pytest.approx(5000, rel=0.01)


def test_saves_and_speeds_that_coincide_are_not_told_apart() -> None:
    costs = costs_of(two_speeds(lambda it: it < 10_000))
    assert (costs.checkpoints.basis, costs.checkpoints.each_ms, costs.checkpoint_ms) == ("unknown", None, None)
    assert costs.evaluations.contains_checkpoint
    assert (costs.checkpoints.saved_rows, costs.checkpoints.unsaved_rows) == (19, 21)


def test_a_drift_does_not_make_a_checkpoint() -> None:
    drifting = nanogpt_run(
        step_ms=100.0,
        evaluation_ms=5000.0,
        checkpoint_ms=0.0,
        pace=lambda it: 1 + 0.3 * it / 20_000,
        stalls={it: 1500.0 * it / 20_000 for it in range(0, 20_001, 500)},
        saves=lambda it: it < 10_000,
    )
    assert costs_of(drifting).checkpoints.basis == "upper_bound"


def first_row(compile_ms: float, **more: object) -> Costs:
    """Steps of 21 s, evaluations of 47 s, and a checkpoint of 19 s at each of them."""
    run = nanogpt_run(3000, step_ms=21_000.0, evaluation_ms=47_000.0, checkpoint_ms=19_000.0, compile_ms=compile_ms,
                      saves=lambda _: True, **more)  # type: ignore[arg-type]  # fmt: skip
    return costs_of(run)


def test_the_first_row_bounds_the_evaluation_and_with_it_the_checkpoint() -> None:
    at_least = first_row(900.0).checkpoints.at_least_ms
    assert at_least is not None
    assert 17_500 < at_least < 19_000


def test_a_start_that_takes_longer_than_a_checkpoint_bounds_nothing() -> None:
    assert first_row(40_000.0).checkpoints.at_least_ms is None


def test_a_first_row_at_another_speed_bounds_nothing() -> None:
    faster = first_row(900.0, log_interval=10, pace=lambda it: 0.7 if it < 300 else 1.0)
    assert faster.checkpoints.at_least_ms is None


def test_a_model_that_the_first_row_contradicts_bounds_nothing() -> None:
    facts = {"eval_iters": 200, "gradient_accumulation_steps": 40}
    assert first_row(900.0, facts=facts).checkpoints.basis == "unknown"  # 63 s, and the first took 48
    assert first_row(900.0, facts=facts | {"eval_iters": 100}).checkpoints.basis == "upper_bound"


def test_a_cost_that_is_unknown_contains_nothing() -> None:
    costs = costs_of(rows_run([9000.0] + [1000.0] * 5, evaluated=range(6), saved=range(6)))
    assert (costs.evaluations.each_ms, costs.evaluations.contains_checkpoint) == (None, False)


@pytest.mark.parametrize(("excess_ms", "known"), [(900.0, True), (1100.0, False)])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_few_evaluations_that_took_far_longer_than_the_first_tell_no_cost(
    excess_ms: float, known: bool, count: int
) -> None:
    """The first row contains one and a start: 500 ms. Not all of three rows contain a stall."""
    times = [600.0, *[100.0] * 30]
    evaluated = [8, 16, 24][:count]
    for row in evaluated:
        times[row] += excess_ms
    each_ms = costs_of(rows_run(times, evaluated=[0, *evaluated])).evaluations.each_ms
    assert each_ms == (pytest.approx(excess_ms) if known or count == 3 else None)


def test_where_no_row_is_a_plain_step_rows_that_only_save_tell_nothing() -> None:
    times = [9000.0, 500.0, *[1000.0, 500.0] * 5]
    costs = costs_of(rows_run(times, evaluated=range(0, 12, 2), saved=range(1, 12, 2)))
    assert (costs.evaluations.each_ms, costs.checkpoints.each_ms, costs.checkpoints.basis) == (None, None, "unknown")


@pytest.mark.parametrize("name", ["eval_interval", "log_interval", "eval_iters", "gradient_accumulation_steps"])
@pytest.mark.parametrize("value", [0, -1])
def test_a_knob_that_cannot_be_is_unknown(name: str, value: int) -> None:
    wrong, without = (diagnose(nanogpt_run(facts=facts)) for facts in (CONFIG | {name: value}, _without(name)))
    assert (wrong.evaluations.interval, wrong.source.log_interval) == (500, 100)
    assert wrong.evaluations.predicted_ms == without.evaluations.predicted_ms


def _without(name: str) -> dict[str, int]:
    return {knob: value for knob, value in CONFIG.items() if knob != name}
