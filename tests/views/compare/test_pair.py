"""The terminal report on two or more runs."""

from __future__ import annotations

import io
import re

from nanopace.diagnosis.result import Diagnosis
from nanopace.record import replace
from nanopace.views.terminal.report import print_report
from nanopace.wording.catalog import words

from ..cases import case_2, contrast


def test_a_comparison_opens_with_two_sentences() -> None:
    lines = " ".join(contrast().split("\n\n")[0].split())
    assert lines == (
        "B is 58.0% slower than A: ~56.1k against ~134.1k tokens/s. At equal time, A leads at first; after 7.8 h, B "
        "overtakes it and stays ahead."
    )


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
    out = io.StringIO()
    print_report([replace(case_2(), a=a, b=b)], words("en"), out=out, width=80, color=False)
    text = out.getvalue()
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
