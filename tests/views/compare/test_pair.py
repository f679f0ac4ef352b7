"""The terminal report on two or more runs."""

from __future__ import annotations

import re
from typing import Any

from nanopace.diagnosis.comparison import Change
from nanopace.diagnosis.result import Diagnosis, Finding
from nanopace.record import replace
from nanopace.views.compare.pair_sections import setting

from ..cases import case_2, contrast, printed


def test_a_comparison_opens_with_two_sentences() -> None:
    lines = " ".join(contrast().split("\n\n")[0].split())
    assert lines == (
        "B is 58.0% slower than A: ~56.1k against ~134.1k tokens/s. At equal time, A leads at first; after 7.8 h, B "
        "overtakes it and stays ahead."
    )


def test_the_answer_does_not_keep_silent_on_a_loss_that_diverged() -> None:
    found, diverged = case_2(), Finding("compare_diverged", {"run": "wide.log", "iteration": 4500})
    answer = printed(replace(found, findings=(*found.findings, diverged))).split("\n\n")[0]
    assert "tokens/s. The loss of B is NaN or infinite from iteration 4,500 on. At equal" in " ".join(answer.split())


def test_a_comparison_has_its_tables() -> None:
    text = contrast()
    assert re.search(r"A +narrow\.log", text)
    assert re.search(r"tokens per second +~134\.1k +~56\.1k +×0\.42", text)
    assert re.search(r"n_embd +384 +~768 +from the command line, inferred", text)
    assert re.search(r"FLOPs per token +-1\.047 +×0\.35", text)
    assert re.search(r"card utilisation +\+0\.175 +×1\.19", text)
    assert re.search(r"2\.36B +4\.2000 +4\.0100 +-0\.1900", text)
    assert "Runs that would settle it, each like B with one setting from A:\n    batch_size=16\n" in text
    assert "1 more with --verbose." in text
    assert "Known for one run only: dropout." in contrast(verbose=True)


def test_a_third_run_has_the_third_letter() -> None:
    text = contrast(runs=3)
    assert "A – C: At equal time, A leads at first; after 7.8 h, C overtakes it" in " ".join(text.split())
    assert re.search(r"^  C +123\.6M", text, re.MULTILINE)


def test_a_comparison_shows_the_last_point_and_verbose_all() -> None:
    assert "2.36B" in contrast()
    assert "262.00M" not in contrast()
    assert "262.00M" in contrast(verbose=True)


def figures_of(a: Diagnosis, b: Diagnosis) -> str:
    text = printed(replace(case_2(), a=a, b=b))
    return text[text.index("Figures") : text.index("What changed")]


def test_more_tflops_never_stand_beside_fewer_tokens_of_the_same_model() -> None:
    """One log prints a smoothed mfu; the other's was computed. Both are computed, or neither is shown."""
    found = case_2()
    a = replace(found.a, mfu=replace(found.a.mfu, achieved_tflops=10.0))
    b = replace(found.b, model=a.model, mfu=replace(found.b.mfu, achieved_tflops=99.0))
    assert re.search(r"achieved +40\.2 TFLOP/s +16\.8 TFLOP/s", figures_of(a, b).replace("\u00a0", " "))
    unknown = replace(b, model=replace(b.model, flops_per_token=None))
    assert "achieved" not in figures_of(a, unknown)


def test_losses_in_other_units_stand_in_no_row_together() -> None:
    found = case_2()
    assert "best validation" in figures_of(found.a, found.b)
    assert "best validation" not in figures_of(found.a, replace(found.b, loss=replace(found.b.loss, metric="bpb")))


def test_what_is_unknown_is_not_zero() -> None:
    found = case_2()
    without_steps = replace(found.b, step=replace(found.b.step, median_ms=0.0))
    assert not re.search(r"(?<![\d.])0(\.0+)? ms|×0\.00\b", figures_of(found.a, without_steps).replace("\u00a0", " "))


def said(findings: list[Finding], **figures: float | None) -> str:
    found = case_2()
    a, b = (
        replace(run, throughput=replace(run.throughput, tokens_per_s=figures.get(name, run.throughput.tokens_per_s)))
        for name, run in (("a", found.a), ("b", found.b))
    )
    return " ".join(printed(replace(found, a=a, b=b, findings=tuple(findings))).split())


def test_speeds_that_differ_are_shown_with_the_digits_that_differ() -> None:
    a, b = 1_256_415.0, 1_283_690.0
    names: dict[str, Any] = {"slower": "narrow.log", "faster": "wide.log", "slower_share": 1 - a / b}
    text = said([Finding("compare_speed", names | {"slower_tokens_per_s": a, "faster_tokens_per_s": b})], a=a, b=b)
    assert "A is 2.1% slower than B: ~1.26M against ~1.28M tokens/s." in text
    assert "tokens per second ~1.26M ~1.28M ×1.02" in text


def test_equal_losses_are_shown_once() -> None:
    assert "best validation loss of both is 9.9150." in said(
        [Finding("compare_loss_equal", {"better_loss": 9.91502, "worse_loss": 9.91503})]
    )
    assert "between 9.9150 and 9.9152 is within" in said(
        [Finding("compare_loss_equal", {"better_loss": 9.9150, "worse_loss": 9.9152})]
    )


def test_what_both_logs_leave_out_is_said_once() -> None:
    one, both = (
        [Finding("compare_clock_incomplete", {"run": name}) for name in names]
        for names in (("wide.log",), ("narrow.log", "wide.log"))
    )
    assert "The log of B does not show" in said(one)
    text = said(both)
    assert "The logs of A, B do not show" in text
    assert "The log of" not in text


def test_a_quotient_is_shown_without_digits_that_say_nothing() -> None:
    told = [setting(value) for value in (9 / 31, 6e-05, 0.001, 12, True)]
    assert told == ["0.290323", "6e-05", "0.001", "12", "True"]


def test_names_of_runs_are_for_verbose() -> None:
    """Two runs always differ in them, and long ones leave the other columns no room."""
    changed = (
        Change("out_dir", "out-of-a-first-run-with-a-long-name", "out-of-a-second", "log", "log"),
        Change("n_layer", 2, 8, "log", "log"),
    )
    found = replace(case_2(), changed=changed)
    brief, verbose = printed(found), printed(found, verbose=True)
    assert "out_dir" not in brief
    assert "1 more with --verbose." in brief.partition("What changed")[2]
    assert "out_dir" in verbose
    assert "n_layer" in brief
    assert "n_layer" in verbose


def test_an_inferred_speed_of_both_has_its_mark() -> None:
    assert "Both are equally fast: ~134.1k tokens/s." in said(
        [Finding("compare_speed_equal", {"tokens_per_s": 134_100.0})]
    )
