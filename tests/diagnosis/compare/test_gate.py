"""What each check of `nanopace gate` answers: at its limit, near it, and if something is unknown."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from nanopace.diagnosis.compare import gate as gate_module
from nanopace.diagnosis.compare.gate import CHECKS, Answer, Check, Limits, judge
from nanopace.diagnosis.compare.slowdown import LEAST_ROWS, Sample, Slowdown, sample
from nanopace.diagnosis.result import Diagnosis, Finding
from nanopace.diagnosis.time.rows import find_pace
from nanopace.run import Run

from ..conftest import make
from ..synthetic import rows_run

EVEN = Slowdown(
    change_share=0.0,
    low_share=-0.004,
    high_share=0.004,
    error_share=0.002,
    rounding_share=0.0,
    lowest_share=-0.01,
    highest_share=0.02,
    steady=True,
    base_ms=100.0,
    new_ms=100.0,
    new_rows=100,
    base_rows=100,
    effective_stretches=18.0,
)


def of(rows: int) -> Sample:
    return Sample([float(row) for row in range(rows)], [4.6] * rows, [1] * rows, 0.0)


def run(**facts: Any) -> Run:
    return rows_run([100.0] * 3, facts=facts)


def checked(
    monkeypatch: pytest.MonkeyPatch,
    found: Slowdown | None,
    *,
    rows: tuple[int, int] = (100, 100),
    new: Run | None = None,
    base: Run | None = None,
    **limits: float,
) -> Check:
    """One check of two runs with this difference."""
    asked: list[float] = []
    monkeypatch.setattr(gate_module, "slowdown", lambda _new, _base, ratio=1.0: asked.append(ratio) or found)
    judged = judge((new or run(), of(rows[0])), (base or run(), of(rows[1])), Limits(**limits), None)
    (check,) = judged.checks
    assert judged.answer == check.answer
    assert set(check.numbers) <= set(CHECKS[check.code])
    return check


@pytest.mark.parametrize(
    ("low", "high", "answer", "code"),
    [
        (-0.004, 0.0099, "passed", "not_slower"),
        (0.001, 0.0099, "passed", "not_slower"),  # certainly slower, but certainly by less than the limit
        (-0.004, 0.01, "unknown", "slower_unclear"),
        (0.0, 0.01, "unknown", "slower_unclear"),
        (0.0001, 0.01, "failed", "slower"),
        (0.02, 0.03, "failed", "slower"),
        (-0.03, -0.02, "passed", "not_slower"),
    ],
)
def test_slower(low: float, high: float, answer: Answer, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check = checked(monkeypatch, replace(EVEN, low_share=low, high_share=high), slower=0.01)
    assert (check.check, check.answer, check.code) == ("slower", answer, code)
    assert (check.numbers["low"], check.numbers["high"], check.numbers["limit"]) == (low, high, 0.01)


WIDE = replace(EVEN, low_share=-0.01, high_share=0.02)


@pytest.mark.parametrize(
    ("change", "limit", "code"),
    [
        ({}, 0.01, "slower_unclear"),
        ({"effective_stretches": 3.0}, 0.01, "slower_unclear_wanders"),
        ({"effective_stretches": 3.0, "steady": False}, 0.01, "slower_unclear_unsteady"),
        ({"rounding_share": 0.003}, 0.01, "slower_unclear_digits"),
        ({"rounding_share": 0.003}, 0.007, "slower_unclear_limit"),
        ({}, 0.0073, "slower_unclear_limit"),
        ({}, 0.0074, "slower_unclear"),
    ],
)
def test_why_it_cannot_be_told(
    change: dict[str, Any], limit: float, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = checked(monkeypatch, replace(WIDE, **change), slower=limit)
    assert (check.answer, check.code) == ("unknown", code)
    assert set(check.numbers) == set(CHECKS[code])


@pytest.mark.parametrize(
    ("rows", "more", "run"), [((100, 100), 500, None), ((100, 90), 510, None), ((5000, 257), 350, "BASE")]
)
def test_how_many_rows_are_to_be_logged(
    rows: tuple[int, int], more: int, run: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """600 of each, to two digits; one may already have them, after the compared iterations."""
    check = checked(monkeypatch, replace(WIDE, error_share=0.00229), rows=rows, slower=0.01)
    assert (check.numbers["rows_more"], check.numbers["run"]) == (more, run)


@pytest.mark.parametrize(
    ("rows", "code", "numbers"),
    [
        ((0, 100), "no_plain_row", {"run": "NEW"}),
        ((100, 0), "no_plain_row", {"run": "BASE"}),
        ((LEAST_ROWS - 1, 100), "few_rows", {"run": "NEW", "rows": LEAST_ROWS - 1, "needed": LEAST_ROWS}),
        ((100, 3), "few_rows", {"run": "BASE", "rows": 3, "needed": LEAST_ROWS}),
        ((100, 100), "few_rows_in_common", {"needed": LEAST_ROWS}),
    ],
)
@pytest.mark.parametrize("limit", ["slower", "max_step_ratio"])
def test_too_few_rows(
    rows: tuple[int, int], code: str, numbers: dict[str, Any], limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = checked(monkeypatch, None, rows=rows, **{limit: 0.5})
    assert (check.check, check.answer, check.code, check.numbers) == (limit, "unknown", code, numbers)


BATCH = {"batch_size": 8, "gradient_accumulation_steps": 4}


@pytest.mark.parametrize(
    ("new", "base", "code", "by_iteration"),
    [
        ({}, {}, "not_slower", True),
        (BATCH, BATCH, "not_slower", True),
        (BATCH, {}, "not_slower", True),
        (BATCH, {**BATCH, "batch_size": 16}, "batches_differ", False),
        ({"tokens_per_iteration": 1000}, {}, "tokens_of_one_unknown", False),
        ({}, {"tokens_per_iteration": 1000}, "tokens_of_one_unknown", False),
        ({"tokens_per_iteration": 1000}, {"tokens_per_iteration": 1000}, "not_slower", False),
        ({"tokens_per_iteration": 2000}, {"tokens_per_iteration": 1000}, "not_slower", False),
    ],
)
def test_tokens_or_iterations(
    new: dict[str, Any], base: dict[str, Any], code: str, by_iteration: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = checked(monkeypatch, EVEN, new=run(**new), base=run(**base), slower=0.01)
    assert (check.code, check.by_iteration) == (code, by_iteration)
    if code == "tokens_of_one_unknown":
        assert check.numbers["run"] == ("BASE" if new else "NEW")
        assert "block_size" in str(check.numbers["missing"])
    if code == "batches_differ":
        assert check.numbers["missing"] == "block_size"
        assert [check.numbers[name] for name in ("knob", "new_value", "base_value")] == ["batch_size", 8, 16]


def test_tokens_of_another_batch() -> None:
    """Twice the tokens in twice the time are as fast; the step is twice as long."""
    times = [500.0, *(100 + 0.3 * math.sin(7.0 * row) for row in range(100))]
    new = rows_run([2 * ms for ms in times], facts={"tokens_per_iteration": 2000})
    base = rows_run(times, facts={"tokens_per_iteration": 1000})
    new_sample, base_sample = (sample(each, find_pace(each)) for each in (new, base))
    judged = judge((new, new_sample), (base, base_sample), Limits(slower=0.01, max_step_ratio=1.9), None)
    slower, ratio = judged.checks
    assert (slower.answer, ratio.answer, judged.answer) == ("passed", "failed", "failed")
    assert slower.numbers["new_tokens_per_s"] == pytest.approx(10_000, rel=0.01)
    assert slower.numbers["base_tokens_per_s"] == pytest.approx(10_000, rel=0.01)
    assert ratio.numbers["ratio"] == pytest.approx(2)
    assert judged.slowdown is not None
    assert judged.slowdown.change_share == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize(
    ("low", "high", "answer", "code"),
    [
        (0.03, 0.05, "passed", "step_short_enough"),
        (0.05, 0.07, "unknown", "step_unclear"),
        (0.0501, 0.07, "failed", "step_too_long"),
    ],
)
def test_step_ratio(low: float, high: float, answer: Answer, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = replace(EVEN, change_share=(low + high) / 2, low_share=low, high_share=high)
    check = checked(monkeypatch, found, max_step_ratio=1.05)
    assert (check.check, check.answer, check.code) == ("max_step_ratio", answer, code)
    assert set(check.numbers) == set(CHECKS[code])
    if answer == "unknown":
        assert check.numbers["rows_more"] == 50  # by the error alone, fewer than there are would do
        at_the_limit = checked(monkeypatch, replace(found, change_share=0.05), max_step_ratio=1.05)
        assert at_the_limit.numbers["rows_more"] is None  # no number of rows would decide it


def diagnosed(
    mfu: float | None = None,
    low: float | None = None,
    high: float | None = None,
    overhead: float | None = None,
    *findings: str,
) -> Diagnosis:
    made = make(card="NVIDIA H100", mfu=mfu, wall={"overhead_share": overhead}, findings=[Finding(f) for f in findings])
    return replace(made, mfu=replace(made.mfu, card_low=low, card_high=high))


@pytest.mark.parametrize(
    ("diagnosis", "limits", "answer", "code"),
    [
        (diagnosed(0.4), {"min_mfu": 0.4}, "passed", "mfu_high_enough"),
        (diagnosed(0.3999), {"min_mfu": 0.4}, "failed", "mfu_too_low"),
        (diagnosed(None, 0.4, 0.5), {"min_mfu": 0.4}, "passed", "mfu_high_enough"),
        (diagnosed(None, 0.3, 0.4), {"min_mfu": 0.4}, "unknown", "mfu_unclear"),
        (diagnosed(None, 0.3, 0.39), {"min_mfu": 0.4}, "failed", "mfu_too_low"),
        (diagnosed(), {"min_mfu": 0.01}, "unknown", "mfu_unclear"),
        (diagnosed(overhead=0.05), {"max_overhead": 0.05}, "passed", "overhead_low_enough"),
        (diagnosed(overhead=0.0501), {"max_overhead": 0.05}, "failed", "overhead_too_high"),
        (diagnosed(overhead=0.0), {"max_overhead": 0.05}, "passed", "overhead_low_enough"),
        (diagnosed(overhead=None), {"max_overhead": 0.99}, "unknown", "overhead_unclear"),
    ],
)
def test_mfu_and_overhead(diagnosis: Diagnosis, limits: dict[str, float], answer: Answer, code: str) -> None:
    judged = judge((run(), of(0)), None, Limits(**limits), diagnosis)
    (check,) = judged.checks
    assert (judged.answer, check.answer, check.code, judged.base) == (answer, answer, code, None)
    assert set(check.numbers) == set(CHECKS[code])


def test_why_the_mfu_is_unknown() -> None:
    diagnosis = diagnosed(None, None, None, None, "tokens_unknown", "mfu_card_unknown")
    (check,) = judge((run(), of(0)), None, Limits(min_mfu=0.4), diagnosis).checks
    assert check.because == Finding("mfu_card_unknown")


@pytest.mark.parametrize(
    ("mfu", "overhead", "answer"),
    [(0.5, 0.01, "passed"), (0.5, None, "unknown"), (None, 0.1, "failed"), (0.1, None, "failed")],
)
def test_one_that_fails_fails_all_and_one_unknown_passes_none(
    mfu: float | None, overhead: float | None, answer: Answer
) -> None:
    limits = Limits(min_mfu=0.4, max_overhead=0.05)
    judged = judge((run(), of(0)), None, limits, diagnosed(mfu, overhead=overhead))
    assert (judged.answer, [check.check for check in judged.checks]) == (answer, ["min_mfu", "max_overhead"])
