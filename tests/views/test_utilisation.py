"""What every view says about the card: a share, a range, or nothing; never a zero that was not measured."""

from __future__ import annotations

import dataclasses

import pytest

from nanopace.diagnosis.result import Diagnosis, Finding, Mfu
from nanopace.views.document import Table
from nanopace.views.figures import utilisation
from nanopace.views.key_figures import key_figures
from nanopace.views.report import Report
from nanopace.wording.catalog import words
from nanopace.wording.numbers import LANGUAGES

from .cases import case_1, explain

UNKNOWN = Mfu(None, None, 312.0, None, None, None, None, None, None, None, None)
RANGE = dataclasses.replace(UNKNOWN, achieved_tflops=400.0, card_name="H100", card_low=0.404, card_high=0.529)
T4 = dataclasses.replace(
    UNKNOWN, achieved_tflops=2.07, card=0.0318, card_causal=0.03, card_name="Tesla T4", card_tflops=65.0
)


def of(mfu: Mfu) -> Diagnosis:
    findings = tuple(each for each in case_1().findings if not each.code.startswith("mfu_"))
    return dataclasses.replace(case_1(), mfu=mfu, findings=findings)


def tile(mfu: Mfu) -> tuple[str, str | None] | None:
    figures = [each for each in key_figures(Report(of(mfu), words("en"))) if each.name == "mfu"]
    return (figures[0].value, figures[0].more) if figures else None


def table(mfu: Mfu) -> dict[str, str]:
    """The name of each row, and the rest of it."""
    found = [block for block in utilisation(Report(of(mfu), words("en"))).blocks if isinstance(block, Table)]
    return {row[0].text: " ".join(cell.text for cell in row[1:]) for made in found for row in made.rows}


def test_a_range_stands_in_the_headline_the_section_the_table_and_the_tile() -> None:
    text = " ".join(explain(mfu=RANGE, findings=(), width=120).split())
    assert "GPU: 40% to 53% of the H100, depending on the variant." in text
    assert "of the H100 40% to 53% depending on the variant" in text
    assert tile(RANGE) == ("40% to 53%", "of the H100")
    assert table(RANGE)["of the H100"] == "40% to 53% depending on the variant"
    judged = dataclasses.replace(RANGE, verdict="half_idle")
    assert "GPU: 40% to 53% of the H100: more than half the card is idle." in explain(mfu=judged, findings=())


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_arithmetic_of_a_peak_is_named(language: str) -> None:
    mfu = dataclasses.replace(T4, card_precision="fp16")
    text = explain(language, mfu=mfu, findings=(), width=120)
    assert "fp16" in text
    assert "bf16" not in text
    assert table(mfu)["of the Tesla T4"].startswith("3.18% of 65.0\u00a0TFLOP/s, dense fp16; ")


def test_what_was_printed_as_zero_is_left_out() -> None:
    assert tile(UNKNOWN) is None
    assert table(UNKNOWN) == {}
    assert "0.00%" not in explain(mfu=UNKNOWN, findings=())


def test_a_tiny_share_is_not_rounded_to_zero() -> None:
    tiny = dataclasses.replace(UNKNOWN, steady_printed=0.00003, card=0.0004, card_name="H200", card_tflops=989.5)
    tiny = dataclasses.replace(tiny, card_precision="bf16", verdict="mostly_idle")
    assert table(tiny)["without evaluation rows"] == "0.0030% of 312\u00a0TFLOP/s"
    assert tile(tiny) == ("0.040%", "of the H200")
    text = " ".join(explain(mfu=tiny, findings=(), width=120).split())
    assert "without evaluation rows 0.0030% of 312 TFLOP/s" in text
    assert "GPU: 0.040% of the H200: most of the card is idle." in text


def test_a_dtype_that_the_card_emulates_is_the_first_thing_to_do() -> None:
    saving = Finding("lower_eval_iters_unknown", {"factor": 4, "noise_factor": 2.0}, 112.0, 0.22, advice=True)
    dtype = Finding("use_float16", {"card_name": "Tesla T4", "dtype": "bfloat16"}, advice=True)
    mfu = dataclasses.replace(T4, card_precision="fp16", verdict="mostly_idle")
    text = " ".join(explain(mfu=mfu, findings=(saving, dtype), width=120).split())
    assert "Try: Set dtype=float16: the Tesla T4 has no bf16 arithmetic and emulates bfloat16. Where" in text
