from __future__ import annotations

import math
from typing import Any

import pytest

from nanopace.diagnosis.codes import FINDINGS
from nanopace.diagnosis.compare.compare import compare
from nanopace.diagnosis.diagnose import diagnose
from nanopace.diagnosis.result import Diagnosis, Finding
from nanopace.record import replace
from nanopace.run import Row, Rows, Run
from nanopace.wording.catalog import words

from ..synthetic import nanogpt_run, rows_run

GOOD = [(500 * k, 100.0 * k, 3.0 + 1 / k) for k in range(1, 13)]
BAD = [(iteration, seconds, val + 0.3) for iteration, seconds, val in GOOD]


@pytest.fixture
def said(make_diagnosis: Any) -> Any:
    def ask(a: dict[str, Any], b: dict[str, Any]) -> list[Finding]:
        return list(compare(make_diagnosis(**{"name": "a.log"} | a), make_diagnosis(**{"name": "b.log"} | b)).findings)

    return ask


def test_which_is_faster(said: Any) -> None:
    first = said({"tokens": 1000.0, "median_ms": 10.0}, {"tokens": 1000.0, "median_ms": 40.0})[0]
    assert first.code == "compare_speed"
    assert first.numbers == {
        "faster": "a.log", "slower": "b.log", "faster_tokens_per_s": 100_000.0, "slower_tokens_per_s": 25_000.0,
        "slower_share": pytest.approx(0.75),
    }  # fmt: skip


def test_what_is_missing_is_named(said: Any) -> None:
    findings = said({"median_ms": 10.0, "knobs": {"batch_size": 8}}, {"median_ms": 20.0, "tokens": 1000.0})
    assert findings[0] == Finding("compare_speed_unknown", {"missing": "gradient_accumulation_steps, block_size"})
    assert findings[2] == Finding(
        "compare_time_per_iteration", {"faster": "a.log", "slower": "b.log", "faster_ms": 10.0, "slower_ms": 20.0}
    )


def test_one_that_leads_all_the_time(said: Any) -> None:
    findings = said({"tokens": 1000.0, "curve": BAD}, {"tokens": 1000.0, "curve": GOOD})
    assert findings[1].code == "compare_leads_time"
    assert findings[1].numbers["leader"] == "b.log"
    assert findings[1].numbers["at_s"] == 1200.0
    assert findings[1].numbers["leader_loss"] == GOOD[-1][2]
    assert findings[2].code == "compare_loss_tokens"
    assert findings[2].numbers["tokens"] == 6_000_000


def test_without_tokens_iterations_have_to_do(said: Any) -> None:
    findings = said({"curve": BAD}, {"curve": GOOD[:9]})
    (finding,) = [each for each in findings if each.code == "compare_loss_iterations"]
    assert finding.numbers == {
        "better": "b.log", "worse": "a.log", "iteration": 4500, "better_loss": GOOD[8][2], "worse_loss": BAD[8][2],
    }  # fmt: skip


def test_no_validation_loss(said: Any) -> None:
    unknown = dict.fromkeys(FINDINGS["compare_loss_unknown"])
    assert said({"curve": BAD}, {})[1] == Finding("compare_loss_unknown", unknown)


def with_losses(name: str, rows: int, lowest: float) -> Diagnosis:
    losses = [lowest + 100 / (100 + at) + (5 if at % 9 == 5 else 0) for at in range(rows)]  # a few stand out
    return diagnose(Run(name, "torchtitan", Rows([Row(at, 10.0, loss) for at, loss in enumerate(losses)])))


def test_without_validation_losses_the_training_losses_near_the_common_end_are_named() -> None:
    findings = compare(with_losses("a.log", 200, 3.0), with_losses("b.log", 300, 3.5)).findings
    (finding,) = [each for each in findings if each.code == "compare_loss_unknown"]
    middle = 100 / (100 + 189)
    assert finding.numbers == {
        "first_iteration": 180, "last_iteration": 199, "run": "a.log", "other": "b.log",
        "run_loss": pytest.approx(3 + middle, abs=0.01), "other_loss": pytest.approx(3.5 + middle, abs=0.01),
    }  # fmt: skip
    few = compare(with_losses("a.log", 90, 3.0), with_losses("b.log", 300, 3.5)).findings
    assert next(each for each in few if each.code == "compare_loss_unknown").numbers["run_loss"] is None
    diverged = compare(with_losses("a.log", 300, 3.0), with_losses("b.log", 300, math.inf)).findings
    assert next(each for each in diverged if each.code == "compare_loss_unknown").numbers["run_loss"] is None


def test_a_tie_is_called_one(said: Any) -> None:
    close = [(iteration, seconds, val + 0.001) for iteration, seconds, val in GOOD]
    assert said({"curve": GOOD}, {"curve": close})[1].code == "compare_loss_equal"


def test_namesakes_are_told_apart(said: Any) -> None:
    fast, slow = {"name": "log.txt", "tokens": 9.0, "median_ms": 1.0}, {"name": "log.txt", "tokens": 9.0}
    first = said(slow, fast)[0]
    assert (first.numbers["faster"], first.numbers["slower"]) == ("log.txt (B)", "log.txt (A)")


def test_why(said: Any) -> None:
    a = {"tokens": 1000.0, "median_ms": 10.0, "flops": 1e9, "card": "x", "peak": 100.0}
    b = {"tokens": 1000.0, "median_ms": 10.0, "flops": 2e9, "card": "y", "peak": 100.0}
    (finding,) = [each for each in said(a, b) if each.code == "compare_why"]
    assert finding.numbers == {
        "flops_per_token_share": pytest.approx(-0.5),
        "gpu_count_share": None,
        "utilisation_share": pytest.approx(1.0),
        "peak_share": 0.0,
    }


def test_data_that_is_not_named_is_said_before_the_loss(said: Any) -> None:
    for known in ({"dataset": None}, {"dataset": None, "knobs": {"vocab_size": 65}}):
        findings = said({"curve": BAD} | known, {"curve": GOOD})
        assert [each.code for each in findings[1:3]] == ["compare_data_unknown", "compare_leads_time"]
    assert "compare_data_unknown" not in [each.code for each in said({"curve": BAD}, {"curve": GOOD})]
    assert "compare_data_unknown" not in [each.code for each in said({"dataset": None}, {"dataset": None})]


def test_with_few_evaluations_only_a_large_lead_is_called(said: Any) -> None:
    def few(more: float) -> dict[str, Any]:
        return {"tokens": 1000.0, "curve": [(i, s, val + more) for i, s, val in GOOD[:4]]}

    assert "compare_leads_time" in [each.code for each in said(few(0.1), few(0.0))]
    close = said(few(0.01), few(0.0))
    late = {"run": None, "iteration": None}
    assert close[1] == Finding("compare_loss_uncertain", {"better_loss": 3.25, "worse_loss": 3.26} | late)
    assert "compare_arrival_uncertain" in [each.code for each in close]
    assert not any("leads" in each.code or "sooner" in each.code or "tokens" in each.code for each in close)


def test_a_run_without_step_times_has_no_time_per_iteration(said: Any) -> None:
    assert not any(each.code == "compare_time_per_iteration" for each in said({"median_ms": 0.0}, {"median_ms": 5.0}))


def test_a_run_without_a_plain_row_has_neither_speed_nor_clock() -> None:
    """Every row has an evaluation, and nine of ten iterations have no row."""
    plain = diagnose(nanogpt_run(5000, log_interval=10, eval_interval=500))
    hidden = diagnose(replace(nanogpt_run(5000, log_interval=500, eval_interval=500), name="hidden.log"))
    found = compare(plain, hidden)
    codes = [finding.code for finding in found.findings]
    assert "compare_step_unknown" in codes
    assert "compare_clock_unknown" in codes
    assert not {"compare_speed", "compare_time_per_iteration", "compare_sooner", "compare_leads_time"} & {*codes}
    assert found.median_ms.b is found.tokens_per_s.b is None


def test_where_every_iteration_has_a_row_the_clock_is_known() -> None:
    every = [diagnose(nanogpt_run(60, log_interval=1, eval_interval=1, step_ms=ms)) for ms in (100.0, 300.0)]
    codes = {finding.code for finding in compare(*every).findings}
    assert "compare_step_unknown" in codes
    assert "compare_clock_unknown" not in codes


def test_a_difference_within_the_scatter_of_the_steps_is_none() -> None:
    noisy = [
        diagnose(rows_run([500.0, *times], facts={"tokens_per_iteration": 1000}))
        for times in ([100, 130, 90, 180, 95, 70, 140, 100], [110, 70, 160, 95, 140, 105, 190, 120])
    ]
    assert compare(*noisy).findings[0].code == "compare_speed_unclear"


def test_settings_are_asked_for_only_where_they_help(make_diagnosis: Any) -> None:
    """Neither the tokens nor the FLOPs of a Hugging Face run follow from nanoGPT's settings."""
    a, b = make_diagnosis(name="a.log", median_ms=1000.0), make_diagnosis(name="b.log", median_ms=900.0)

    def said(format: str) -> dict[str, Any]:
        runs = [replace(run, source=replace(run.source, format=format)) for run in (a, b)]
        return {each.code: each.numbers["missing"] for each in compare(*runs).findings if "missing" in each.numbers}

    asked = said("nanogpt")
    assert asked["compare_speed_unknown"] == "batch_size, gradient_accumulation_steps, block_size"
    assert "n_layer" in asked["compare_settings_unknown"]
    assert said("hf_console") == {"compare_speed_unknown": None, "compare_settings_unknown": None}
    assert "--config" not in words("en").finding("compare_settings_unknown", {"missing": None})
