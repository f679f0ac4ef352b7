"""The terminal report on two runs and more."""

from __future__ import annotations

import re

from .cases import contrast


def test_a_comparison_opens_with_two_sentences() -> None:
    lines = " ".join(contrast().split("\n\n")[0].split())
    assert lines == (
        "B is 58.0% slower than A: ~56.1k against ~134.1k tokens/s. "
        "At equal time A leads at first; after 7.8 h B overtakes it and stays ahead."
    )


def test_a_comparison_has_its_tables() -> None:
    text = contrast()
    assert re.search(r"A +narrow\.log", text)
    assert re.search(r"tokens per second +~134\.1k +~56\.1k +×0\.42", text)
    assert re.search(r"n_embd +384 +~768 +from the command line, inferred", text)
    assert re.search(r"FLOPs per token +-1\.047 +×0\.35", text)
    assert re.search(r"use of the card +\+0\.175 +×1\.19", text)
    assert re.search(r"2\.36B +4\.2000 +4\.0100 +-0\.1900", text)
    assert "Runs that would settle it, each like B with one knob as in A:\n    batch_size=16\n" in text
    assert "1 more with --verbose." in text
    assert "Known of one run only: dropout." in contrast(verbose=True)


def test_a_third_run_has_the_third_letter() -> None:
    text = contrast(runs=3)
    assert "A – C: At equal time A leads at first; after 7.8 h C overtakes it" in " ".join(text.split())
    assert re.search(r"^  C +123\.6M", text, re.MULTILINE)


def test_a_comparison_shows_the_last_point_and_verbose_all() -> None:
    assert "2.36B" in contrast()
    assert "262.00M" not in contrast()
    assert "262.00M" in contrast(verbose=True)


# --- how it looks ----------------------------------------------------------------------------------------------------
