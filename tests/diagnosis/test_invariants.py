"""One delayed row changes nothing but the stalls; and an impossible figure is never reported."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from nanopace.diagnosis import invariants
from nanopace.diagnosis.compare.compare import compare
from nanopace.diagnosis.diagnose import diagnose
from nanopace.diagnosis.invariants import InvariantError, withhold_false_findings
from nanopace.diagnosis.result import Diagnosis, Finding
from nanopace.record import replace
from nanopace.run import Evaluation, Row, Rows, Run

from .conftest import MakeDiagnosis
from .synthetic import nanogpt_run

HALF_AN_HOUR = 1_800_000.0


def advised(run: Diagnosis) -> dict[str, float]:
    return {each.code: each.saves_s or 0.0 for each in run.findings if each.advice and each.code != "find_the_stall"}


@pytest.mark.parametrize(
    ("saves", "held"),
    [
        (lambda it: it < 12_000, [12_000]),  # the only evaluation without a save, the last row
        (lambda it: it == 6000, [6000]),  # the only one with a save
        (lambda it: it in (3000, 6000), [6000]),
        (lambda _: True, [6000]),
        (lambda _: False, [500]),
        (lambda it: it % 1000 == 0, [6000, 6500]),  # two that are equal
        (lambda it: it % 1000 == 0, [0]),
        (lambda it: it % 1000 == 0, [5300]),
    ],
)
def test_rows_that_were_held_up_change_no_price_and_no_advice(saves: Callable[[int], bool], held: list[int]) -> None:
    calm = diagnose(nanogpt_run(12_000, saves=saves, checkpoint_ms=400.0))
    hit = diagnose(nanogpt_run(12_000, saves=saves, checkpoint_ms=400.0, stalls=dict.fromkeys(held, HALF_AN_HOUR)))
    assert hit.step.median_ms == pytest.approx(calm.step.median_ms, rel=0.01)
    assert hit.evaluations.each_ms == pytest.approx(calm.evaluations.each_ms, rel=0.1)
    assert hit.wall.training_s == pytest.approx(calm.wall.training_s, rel=0.01)
    assert (hit.wall.evaluation_s or 0.0) + (hit.wall.checkpoint_s or 0.0) == pytest.approx(
        (calm.wall.evaluation_s or 0.0) + (calm.wall.checkpoint_s or 0.0), rel=0.02
    )
    assert hit.ahead.seconds_per_1000 == pytest.approx(calm.ahead.seconds_per_1000, rel=0.02)
    longer = hit.wall.stall_s + hit.wall.startup_s - calm.wall.stall_s - calm.wall.startup_s
    assert longer == pytest.approx(len(held) * HALF_AN_HOUR / 1000, rel=0.01)
    assert advised(hit) == pytest.approx(advised(calm), rel=0.05)


def test_an_evaluation_of_a_ledger_that_was_held_up_is_a_stall() -> None:
    evaluations = [Evaluation(at, 4.0, 4.0, ms=HALF_AN_HOUR if at == 500 else 600.0) for at in range(100, 1001, 100)]
    run = Run(
        "ledger", "ledger", Rows([Row(at, 100.0) for at in range(1001)]),
        evaluations=tuple(evaluations), row_contains_evaluation=False,
    )  # fmt: skip
    found = diagnose(run)
    assert found.evaluations.each_ms == 600.0
    assert found.wall.evaluation_s == pytest.approx(6.0)
    assert found.wall.stall_s == pytest.approx(HALF_AN_HOUR / 1000, rel=0.01)
    (told,) = (each for each in found.findings if each.code == "long_events")
    assert (told.numbers["count"], told.numbers["iteration"]) == (1, 500)


def test_a_save_that_took_long_once_is_told_as_what_it_is() -> None:
    found = diagnose(nanogpt_run(12_000, saves=lambda it: it == 6000, checkpoint_ms=60_000.0))
    (told,) = (each for each in found.findings if each.code == "save_in_doubt")
    assert told.numbers["longer_s"] == pytest.approx(60.0, rel=0.01)
    assert not {"stalls", "find_the_stall"} & {each.code for each in found.findings}


FALSE = (
    Finding("save_less_often", {"checkpoints": 24, "to_checkpoints": 6}, 32_400.0, 7.498, advice=True),
    Finding("save_less_often", {"checkpoints": 24, "to_checkpoints": 6}, 50.0, 0.5, advice=True),  # more than they took
    Finding("raise_eval_interval", {"from_interval": 500, "to_interval": 500, "evaluations": 3}, 1.0, 0.1, advice=True),
    Finding("stalls", {"rows": 1, "largest_s": 9.0, "iteration": 3, "total_s": 1.0, "total_share": 0.1}),
    Finding("stalls", {"rows": 1, "largest_s": 1.0, "iteration": 3, "total_s": 1.0, "total_share": 1.1}),
    Finding("stalls", {"rows": 1, "largest_s": float("nan"), "iteration": 3, "total_s": 1.0, "total_share": 0.1}),
)


@pytest.mark.parametrize("false", FALSE)
def test_a_sentence_that_cannot_be_is_left_out(
    false: Finding, make_diagnosis: MakeDiagnosis, monkeypatch: pytest.MonkeyPatch
) -> None:
    true = Finding("restarts", {"count": 1, "lost_iterations": 3, "lost_s": 1.0})
    run = make_diagnosis(findings=[true, false])
    with pytest.raises(InvariantError, match=false.code):
        withhold_false_findings(run)
    monkeypatch.setattr(invariants, "strict", False)
    assert withhold_false_findings(run).findings == (true,)


def test_a_sentence_that_just_can_be_is_said(make_diagnosis: MakeDiagnosis) -> None:
    true = Finding("save_less_often", {"checkpoints": 24, "to_checkpoints": 1}, 0.0, 0.0, advice=True)
    assert withhold_false_findings(make_diagnosis(findings=[true])).findings == (true,)


def test_an_evaluation_takes_no_longer_than_its_run(make_diagnosis: MakeDiagnosis) -> None:
    def told(each_ms: float) -> Diagnosis:
        evaluations = {"count": 1, "visible": 1, "each_ms": each_ms}
        return withhold_false_findings(make_diagnosis(evaluations=evaluations, wall={"total_s": 2000.0}))

    assert told(1_999_000.0).evaluations.count == 1
    with pytest.raises(InvariantError, match=r"an evaluation of 2001000\.0 ms in a run of 2000"):
        told(2_001_000.0)


def test_every_diagnosis_and_every_comparison_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    calm = diagnose(nanogpt_run(3000))
    monkeypatch.setattr("nanopace.diagnosis.diagnose.advise", lambda *_: (FALSE[0],))
    with pytest.raises(InvariantError, match="save_less_often"):
        diagnose(nanogpt_run(3000))
    wrong = replace(calm, step=replace(calm.step, median_ms=-1.0))
    with pytest.raises(InvariantError, match="-1"):
        compare(calm, wrong)


def test_advice_that_rests_on_a_wrong_whole_is_left_out(
    make_diagnosis: MakeDiagnosis, monkeypatch: pytest.MonkeyPatch
) -> None:
    advice = Finding("turn_on_compile", advice=True)
    run = make_diagnosis(findings=[advice])
    wrong = replace(run, wall=replace(run.wall, stall_s=500.0))
    monkeypatch.setattr(invariants, "strict", False)
    assert withhold_false_findings(run).findings == (advice,)
    assert withhold_false_findings(wrong).findings == ()


def changed(run: Diagnosis, path: str, value: object) -> Diagnosis:
    section, name = path.split(".")
    return replace(run, **{section: replace(getattr(run, section), **{name: value})})


@pytest.mark.parametrize(
    ("path", "right", "wrong"),
    [
        ("step.median_ms", 0.0, -0.001),
        ("step.spread", 1e9, math.inf),
        ("step.first_fifth_ms", 0.0, math.nan),
        ("evaluations.interval", 1, -1),
        ("evaluations.each_ms", 2_000_000.0, 2_000_010.0),  # all of the run
        ("evaluations.hidden", 0, 1),
        ("checkpoints.each_ms", 2_000_000.0, 2_000_010.0),
        ("checkpoints.background_ms", 0.0, -1.0),
        ("startup.compile_ms", 900.0, 900.1),  # with a step of 100 ms in 1,000 ms
        ("startup.evaluation_ms", 900.0, -0.1),
        ("restarts.lost_s", 2000.0, 2000.1),
        ("wall.goodput", 1 + 1.9e-6, 1 + 2.1e-6),
        ("wall.overhead_share", 1 + 1.9e-6, 1 + 2.1e-6),
        ("wall.total_s", 2000.001, 2000.1),  # the sum of its parts
        ("wall.unknown_s", None, 1.0),
        ("wall.rollback_s", 0.0, 1.0),
        ("ahead.eta_s", 0.0, -1.0),
        ("ahead.overhead_share", 1.0, 1.1),
        ("throughput.tokens_per_s", 0.0, -1.0),
        ("mfu.steady_printed", 1.6, -0.1),
        ("mfu.card", 1.6, math.inf),
        ("mfu.achieved_tflops", 0.0, math.nan),
    ],
)
def test_figures_that_can_be_and_that_cannot(
    make_diagnosis: MakeDiagnosis, path: str, right: object, wrong: object
) -> None:
    run = make_diagnosis(checkpoints={"basis": "measured"})
    assert withhold_false_findings(changed(run, path, right))
    with pytest.raises(InvariantError):
        withhold_false_findings(changed(run, path, wrong))


@pytest.mark.parametrize("section", ["evaluations", "checkpoints"])
def test_an_interval_has_its_ends_in_order(make_diagnosis: MakeDiagnosis, section: str) -> None:
    run = make_diagnosis(**{section: {"low_ms": 5.0, "high_ms": 5.0}})
    assert withhold_false_findings(run)
    with pytest.raises(InvariantError, match="interval"):
        withhold_false_findings(changed(run, f"{section}.low_ms", 5.1))


def test_a_bound_may_be_longer_than_the_run(make_diagnosis: MakeDiagnosis) -> None:
    assert withhold_false_findings(make_diagnosis(checkpoints={"basis": "upper_bound", "each_ms": 9e6}))


@pytest.mark.parametrize(
    ("code", "right", "wrong"),
    [
        ("raise_eval_interval", {"from_interval": 1, "to_interval": 2, "evaluations": 0},
         {"from_interval": 0, "to_interval": 2, "evaluations": 0}),
        ("raise_eval_interval", {"from_interval": 1, "to_interval": 2, "evaluations": 0},
         {"from_interval": 1, "to_interval": 2, "evaluations": -1}),
        ("lower_eval_iters", {"to_iters": 1, "from_iters": 2}, {"to_iters": 0, "from_iters": 2}),
        ("lower_eval_iters", {"to_iters": 1, "from_iters": 2}, {"to_iters": 2, "from_iters": 2}),
        ("lower_eval_iters_unknown", {"factor": 1.1}, {"factor": 1}),
        ("save_less_often", {"to_checkpoints": 1, "checkpoints": 2}, {"to_checkpoints": 0, "checkpoints": 2}),
        ("save_less_often", {"to_checkpoints": 1, "checkpoints": 2}, {"to_checkpoints": 2, "checkpoints": 2}),
        ("larger_micro_batch", {"from_batch": 1, "to_batch": 2, "to_accumulation": 1},
         {"from_batch": 1, "to_batch": 1, "to_accumulation": 1}),
        ("larger_micro_batch", {"from_batch": 1, "to_batch": 2, "to_accumulation": 1},
         {"from_batch": 1, "to_batch": 2, "to_accumulation": 0}),
        ("smaller_micro_batch", {"to_batch": 1, "to_accumulation": 1}, {"to_batch": 0, "to_accumulation": 1}),
        ("smaller_micro_batch", {"to_batch": 1, "to_accumulation": 1}, {"to_batch": 1, "to_accumulation": 0}),
        ("drift", {"drift_share": -3.0, "lost_s": 2000.0}, {"drift_share": -3.0, "lost_s": 2000.1}),
        ("evaluation_rows", {"overhead_share": 1.0, "each_s": 0.0}, {"overhead_share": 1.0, "each_s": -0.1}),
        ("level_shift", {"after_ms": 0.0}, {"after_ms": -1.0}),
        ("stalls", {"largest_s": 2.0, "total_s": 2.0}, {"largest_s": 2.1, "total_s": 2.0}),
    ],
)  # fmt: skip
def test_numbers_that_can_be_said_and_that_cannot(
    make_diagnosis: MakeDiagnosis, code: str, right: dict[str, float], wrong: dict[str, float]
) -> None:
    assert withhold_false_findings(make_diagnosis(findings=[Finding(code, right)]))
    with pytest.raises(InvariantError, match=code):
        withhold_false_findings(make_diagnosis(findings=[Finding(code, wrong)]))


@pytest.mark.parametrize(
    ("code", "spent_s"),
    [("raise_eval_interval", 800.0), ("lower_eval_iters", 500.0), ("lower_eval_iters_unknown", 500.0),
     ("save_less_often", 300.0), ("find_the_stall", 100.0), ("turn_on_compile", 2000.0)],
)  # fmt: skip
def test_no_advice_saves_more_than_was_spent(make_diagnosis: MakeDiagnosis, code: str, spent_s: float) -> None:
    wall = {"training_s": 1100.0, "evaluation_s": 500.0, "checkpoint_s": 300.0, "stall_s": 100.0, "overhead_share": 0.4}
    numbers = {"from_interval": 1, "to_interval": 2, "evaluations": 1, "from_iters": 2, "to_iters": 1, "factor": 2}
    numbers |= {"checkpoints": 2, "to_checkpoints": 1}
    for saves_s, said in ((spent_s, True), (spent_s + 0.1, False)):
        run = make_diagnosis(wall=wall, findings=[Finding(code, numbers, saves_s, 0.5, advice=True)])
        if said:
            assert withhold_false_findings(run)
        else:
            with pytest.raises(InvariantError, match="saves"):
                withhold_false_findings(run)
