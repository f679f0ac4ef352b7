"""One row that was held up rewrites nothing but the stalls; and a figure that cannot be is never said."""

from __future__ import annotations

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
