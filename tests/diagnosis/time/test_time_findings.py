from __future__ import annotations

import random
from dataclasses import replace

import pytest

from nanopace.diagnosis.diagnose import diagnose
from nanopace.diagnosis.result import Finding
from nanopace.run import Evaluation, Row, Rows, Run

from ..synthetic import nanogpt_run, rows_run


def found(run: Run) -> dict[str, Finding]:
    return {finding.code: finding for finding in diagnose(run).findings}


def test_the_measured_checkpoint_is_said() -> None:
    findings = found(nanogpt_run(saves=lambda iteration: iteration <= 16_500))
    rows, checkpoint = findings["evaluation_rows"].numbers, findings["checkpoint_measured"].numbers
    assert (rows["slow"], rows["rows"], rows["interval"]) == (40, 201, 500)
    assert rows["overhead_share"] == pytest.approx(0.061, abs=0.001)
    assert checkpoint["checkpoint_share"] == pytest.approx(470 / 5610, rel=0.02)
    assert findings["startup"].numbers["compile_s"] == pytest.approx(7.2, abs=0.01)
    assert "checkpoint_not_first" in findings


def test_rows_that_fetched_data_are_said() -> None:
    times = [160.0 if index == 90 else 150.0 if index in (30, 150) else 100.0 for index in range(200)]
    findings = found(replace(rows_run(times), fetches=(300, 650, 900, 1500)))
    numbers = {"rows": 3, "largest_s": 0.06, "iteration": 900, "total_s": 0.16, "fetch_share": 0.02}
    assert findings["fetch_stalls"].numbers == pytest.approx({**numbers, "total_share": 0.16 / 199.26}, rel=1e-3)
    assert not {"stalls", "find_the_stall"} & findings.keys()


def test_hidden_evaluations_are_said() -> None:
    """How to show them is a note, and no advice."""
    findings = found(nanogpt_run(log_interval=200, saves=lambda _: False))
    intervals = {"log_interval": 200, "eval_interval": 500}
    hidden_s = pytest.approx(20 * 5.14, rel=0.01)
    assert findings["hidden_evaluations"].numbers == {"hidden": 20, "count": 40, "hidden_s": hidden_s} | intervals
    note = findings["align_log_interval"]
    assert (note.numbers, note.advice) == (intervals, False)


def test_hidden_evaluations_without_a_cost_are_said() -> None:
    assert "hidden_unpriced" in found(nanogpt_run(2500, log_interval=300, eval_interval=1000))


def test_evaluations_outside_of_the_clock_are_said() -> None:
    rows = Rows([Row(iteration, 100.0) for iteration in range(50)])
    evaluated = (Evaluation(25, None, 0.9, "bpb"),)
    run = Run("log", "nanochat", rows, evaluations=evaluated, row_contains_evaluation=False)
    assert found(run)["evaluations_outside_clock"].numbers == {"count": 1, "timed": None, "timed_s": None}


def test_of_those_the_trainer_timed_some() -> None:
    """The benchmark of a nanochat run has a time, the evaluations around it, also the first, have none."""
    evaluated = (
        Evaluation(0, None, 3.0, "bpb"),
        Evaluation(25, None, 0.9, "bpb"),
        Evaluation(25, None, 0.1, "core", ms=6500.0),
    )
    rows = Rows([Row(iteration, 100.0) for iteration in range(50)])
    run = Run("log", "nanochat", rows, evaluations=evaluated, row_contains_evaluation=False)
    assert found(run)["evaluations_outside_clock"].numbers == {"count": 2, "timed": 1, "timed_s": 6.5}
    wall = diagnose(run).wall
    assert (wall.evaluation_s, wall.unknown_s, wall.overhead_share) == (6.5, None, None)
    timed = diagnose(replace(run, evaluations=evaluated[2:]))
    assert "evaluations_outside_clock" not in {each.code for each in timed.findings}
    assert timed.wall.overhead_share == pytest.approx(6.5 / 11.5)


def test_how_far_a_checkpoint_can_be_told_is_said() -> None:
    def said(**more: object) -> set[str]:
        return {code for code in found(nanogpt_run(**more)) if code.startswith("checkpoint_")}  # type: ignore[arg-type]

    assert said() == {"checkpoint_measured", "checkpoint_not_first"}
    assert said(checkpoint_ms=0.0) == {"checkpoint_within_scatter", "checkpoint_not_first"}
    assert said(saves=lambda _: True) == {"checkpoint_unknown", "checkpoint_not_first"}
    assert said(saves=lambda _: True, compile_ms=20.0) == {"checkpoint_at_least", "checkpoint_not_first"}
    faster = {"pace": lambda it: 1.0 if it < 10_000 else 0.6, "saves": lambda it: it < 10_000}
    assert said(**faster) == {"checkpoint_other_speed", "checkpoint_not_first"}


@pytest.mark.parametrize("unsaved", [1, 2])
def test_few_rows_without_a_save_are_named_and_not_used(unsaved: int) -> None:
    without = [2000, 9000][:unsaved]
    run = nanogpt_run(evaluation_ms=5000.0, checkpoint_ms=700.0, saves=lambda it: it not in without)
    said = {code: each.numbers for code, each in found(run).items() if code.startswith("checkpoint_")}
    assert set(said) == {"checkpoint_few_without", "checkpoint_not_first"}
    assert said["checkpoint_few_without"] == {"saved_rows": 40 - unsaved, "unsaved_rows": unsaved}


@pytest.mark.parametrize(("evaluation_steps", "bounded"), [(3.0, False), (4.0, True)])
def test_an_evaluation_faster_than_the_model_allows_refutes_it(evaluation_steps: float, bounded: bool) -> None:
    """The row without a save took less than the 3.75 steps that the model says an evaluation takes at least."""
    run = nanogpt_run(
        step_ms=1000.0,
        evaluation_ms=1000 * evaluation_steps,
        checkpoint_ms=2000.0,
        saves=lambda it: it != 2000,
        facts={"eval_iters": 200, "gradient_accumulation_steps": 32},
        compile_ms=9e4,
    )
    assert (diagnose(run).checkpoints.each_ms is not None) is bounded


@pytest.mark.parametrize("steps", [3.0, 4.0, 4.3])
def test_a_checkpoint_is_bounded_where_the_row_takes_longer_than_the_evaluation_must(steps: float) -> None:
    """2 x 200 forward passes, a third of one of 32 micro-steps each: 4.17 steps; a checkpoint is bounded from 3.75."""
    facts = {"eval_iters": 200, "gradient_accumulation_steps": 32}
    run = nanogpt_run(
        step_ms=1000.0, evaluation_ms=1000 * steps, checkpoint_ms=0.0, saves=lambda _: True, facts=facts, compile_ms=9e4
    )
    said = found(run)
    expected = pytest.approx(400 / 3 / 32, rel=0.01)
    if steps < 3.75:
        assert said["checkpoint_unknown"].numbers["predicted_s"] == expected
    else:
        assert said["checkpoint_bounded"].numbers["predicted_s"] == expected
        assert said["checkpoint_bounded"].numbers["checkpoint_s"] == pytest.approx(steps - 3.75, abs=0.02)


def test_an_interval_is_told_where_it_is_wide() -> None:
    narrow = found(nanogpt_run())["checkpoint_measured"].numbers
    assert (narrow["checkpoint_low_s"], narrow["checkpoint_high_s"]) == (None, None)
    noisy = random.Random(1)
    scattered = {iteration: 400 * abs(noisy.gauss(0, 1)) for iteration in range(0, 20_001, 500)}
    wide = found(nanogpt_run(stalls=scattered))["checkpoint_measured"].numbers
    assert 0.3 < float(wide["checkpoint_low_s"] or 0) < float(wide["checkpoint_high_s"] or 0) < 0.7


def test_a_start_is_split_only_where_the_evaluation_has_a_cost() -> None:
    def start(**more: object) -> set[str]:
        return {code for code in found(nanogpt_run(**more)) if code.startswith("startup")}  # type: ignore[arg-type]

    assert start() == {"startup"}
    assert start(saves=lambda _: True) == {"startup_bounded"}
    assert start(saves=lambda _: True, compile_ms=20.0) == {"startup_together"}
    assert start(compile_ms=0.0) == {"startup_together"}
    assert start(eval_interval=0) == {"startup_unsplit"}
    assert start(first_iteration=5100, compile_ms=0.0) == set()


def test_an_evaluation_after_the_last_row_is_said_if_it_costs_anything_and_is_not_hidden() -> None:
    def with_one_more(run: Run) -> dict[str, Finding]:
        return found(replace(run, evaluations=(*run.evaluations, Evaluation(20_010, 4.0, 4.0))))

    findings = with_one_more(nanogpt_run(saves=lambda _: False))
    assert findings["after_last_row"].numbers["after_s"] == pytest.approx(5.14, abs=0.01)
    assert "hidden_evaluations" not in findings
    assert "after_last_row" not in with_one_more(nanogpt_run(saves=lambda _: False, evaluation_ms=0.0))


def test_stalls_are_said_with_their_largest() -> None:
    findings = found(nanogpt_run(eval_interval=0, stalls={400: 900.0, 4100: 5000.0}))
    assert findings["stalls"].numbers["iteration"] == 4100
    assert findings["stalls"].numbers["total_s"] == pytest.approx(5.9, abs=0.01)


def test_the_most_expensive_comes_first() -> None:
    costly_stall = [each.code for each in diagnose(nanogpt_run(stalls={400: 900_000.0})).findings]
    assert costly_stall.index("stalls") < costly_stall.index("evaluation_rows") < costly_stall.index("startup")
    spill = [each.code for each in diagnose(nanogpt_run(pace=lambda it: 3.0 if it > 5000 else 1.0)).findings]
    assert spill[0] == "memory_spill"


@pytest.mark.parametrize("ending", ["out_of_memory", "error", "interrupted"])
def test_how_it_ended_is_said_first(ending: str) -> None:
    run = replace(nanogpt_run(), ending=ending)
    assert diagnose(run).findings[0] == Finding(f"ended_{ending}", {"last_iteration": 20_000})


def test_conflicts_and_restarts_are_said() -> None:
    run = replace(nanogpt_run(restarts={5740: 5000}), conflicts=(("batch_size", 8, 12),))
    findings = found(run)
    assert findings["conflict"].numbers == {"knob": "batch_size", "used": 8, "other": 12}
    assert findings["restarts"].numbers["lost_iterations"] == 741


def test_a_quiet_run_has_no_time_findings() -> None:
    codes = set(found(rows_run([100.0] * 40)))
    assert codes <= {"mfu_unknown", "tokens_unknown", "nothing_to_change"}


def test_the_stalls_of_the_wall_clock_are_those_that_are_told() -> None:
    slow, uneven = {300: 900.0, 7700: 400.0}, dict.fromkeys(range(1100, 15000, 700), 15.0)
    recurring = dict.fromkeys(range(150, 20_000, 1000), 300.0)
    diagnosis = diagnose(nanogpt_run(noise=0.0, log_interval=50, stalls={**uneven, **slow, **recurring}))
    told = {finding.code: float(finding.numbers.get("total_s", 0.0)) for finding in diagnosis.findings}  # type: ignore[arg-type]
    assert told.keys() >= {"stalls", "periodic_stalls", "uneven_rows"}
    assert told["stalls"] + told["periodic_stalls"] + told["uneven_rows"] == pytest.approx(diagnosis.wall.stall_s)


def test_hidden_evaluations_are_bounded_where_a_save_is_in_doubt() -> None:
    run = nanogpt_run(
        6000, log_interval=50, eval_interval=375, saves=lambda at: at in (1125, 1500), checkpoint_ms=20_000.0
    )
    findings = found(run)
    assert findings["save_in_doubt"].numbers["saved_rows"] == 1
    numbers = findings["hidden_in_doubt"].numbers
    assert (numbers["hidden"], numbers["count"]) == (8, 16)
    assert numbers["low_s"] == pytest.approx(8 * 5.14, rel=0.01)
    assert numbers["high_s"] == pytest.approx(8 * 5.14 + 20, rel=0.01)
    assert "hidden_unpriced" not in findings


def test_a_row_in_doubt_took_longer_than_the_evaluation_named_with_it() -> None:
    """Rows and sentence agree even where the evaluations without a save were delayed as well."""
    stalls = dict.fromkeys((500, 1000, 1500), 2000.0)
    run = nanogpt_run(
        1900, log_interval=10, saves=lambda at: at == 500, checkpoint_ms=20_000.0, stalls=stalls, compile_ms=100.0
    )
    numbers = found(run)["save_in_doubt"].numbers
    assert isinstance(numbers["evaluation_s"], float)
    assert numbers["longer_s"] == pytest.approx(5.14 + 2 + 20 - numbers["evaluation_s"], rel=0.01)


def test_evaluations_that_took_longer_than_the_first_may_price_no_save() -> None:
    stalls = dict.fromkeys((500, 1000, 1500), 30_000.0)
    run = nanogpt_run(
        1900, log_interval=10, saves=lambda at: at < 1500, checkpoint_ms=90_000.0, stalls=stalls, compile_ms=100.0
    )
    assert "save_in_doubt" not in found(run)
