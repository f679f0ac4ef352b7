"""Every code of `nanopace gate` has a sentence in every language, with the right numbers."""

from __future__ import annotations

import pytest

from nanopace.diagnosis.compare.gate import CHECKS, Check, Gate
from nanopace.diagnosis.result import Finding
from nanopace.views.compare.gate import sentences
from nanopace.wording.catalog import words
from nanopace.wording.gates import COMPARED, GATES
from nanopace.wording.numbers import LANGUAGES
from nanopace.wording.template import placeholders

NUMBERS = (
    {"limit": 0.01, "change": 0.0128, "low": 0.0091, "high": 0.0165, "lowest": -0.002, "highest": 0.034}
    | {"new_ms": 102.41, "base_ms": 101.12, "new_tokens_per_s": None, "base_tokens_per_s": None}
    | {"new_rows": 1480, "base_rows": 512, "rows_more": 3200, "run": "NEW", "least_limit": 0.0073}
    | {"rows": 7, "needed": 30, "missing": "block_size", "knob": "batch_size", "new_value": 8.0, "base_value": 16.0}
    | {"ratio": 1.0128, "mfu": 0.3821, "card_name": "NVIDIA H100", "overhead": 0.0613}
)


def said(code: str, language: str = "en", **changed: object) -> str:
    numbers = {name: {**NUMBERS, **changed}[name] for name in CHECKS[code]}
    check = Check("max_step_ratio" if code.startswith("step") else "slower", "unknown", code, numbers)  # type: ignore[arg-type]
    (sentence,) = sentences(Gate("unknown", "a", "b", (check,), None), words(language))
    return sentence.replace("\u00a0", " ")


def test_there_is_a_sentence_for_each_code_and_no_other() -> None:
    assert set(GATES) == set(CHECKS)
    for code, sentence in GATES.items():
        for template in sentence.templates:
            assert placeholders(template.one) <= {*CHECKS[code], "compared"}
            assert ("compared" in placeholders(template.one)) == ("change" in CHECKS[code])
    assert all(placeholders(template.one) <= set(CHECKS["slower"]) for template in COMPARED.templates)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("code", CHECKS)
def test_each_can_be_said(code: str, language: str) -> None:
    sentence = said(code, language)
    assert "{" not in sentence
    assert "None" not in sentence
    assert sentence.endswith(".")


COMPARISON = "102.4 ms per step against 101.1 ms, +1.28% (99% interval +0.91% to +1.65%), 1,480 and 512 rows"


@pytest.mark.parametrize(
    ("code", "changed", "sentence"),
    [
        ("slower", {}, f"slower: {COMPARISON}."),
        ("not_slower", {"limit": 0.025}, f"not slower by 2.5%: {COMPARISON}."),
        (
            "slower",
            {"new_tokens_per_s": 40_000.0, "base_tokens_per_s": 40_520.0},
            "slower: 40.0k tokens/s against 40.5k, +1.28% per token (99% interval +0.91% to +1.65%), 1,480 and 512 "
            "rows.",
        ),
        ("slower_unclear", {}, f"cannot tell: {COMPARISON}; log about 3,200 more rows of NEW."),
        ("slower_unclear", {"run": None}, f"cannot tell: {COMPARISON}; log about 3,200 more rows of each run."),
        (
            "step_too_long",
            {"ratio": 1.0623, "low": 1.0511, "high": 1.0735, "limit": 1.05},
            "step too slow: 1.0623x the step of BASE (99% interval 1.0511 to 1.0735); at most 1.05 is allowed.",
        ),
        (
            "step_unclear",
            {"ratio": 1.05, "low": 1.04, "high": 1.06, "limit": 1.05, "rows_more": None, "run": None},
            "cannot tell: a step takes 1.0500x as long as in BASE (99% interval 1.0400 to 1.0600), and 1.05 is "
            "allowed; more rows do not help.",
        ),
        (
            "mfu_too_low",
            {"limit": 0.4},
            "mfu too low: 38.21% of the H100; at least 40% is required.",
        ),
        ("few_rows", {}, "cannot tell: NEW has too few plain steps (7; 30 are needed)."),
    ],
)
def test_as_they_read(code: str, changed: dict[str, object], sentence: str) -> None:
    assert said(code, **changed) == sentence


def test_what_is_taken_for_granted_and_why_follow() -> None:
    finding = Finding("mfu_unknown", {"missing": "gpu"})
    checks = (
        Check("slower", "failed", "slower", {name: NUMBERS[name] for name in CHECKS["slower"]}, by_iteration=True),
        Check("min_mfu", "unknown", "mfu_unclear", {}, because=finding),
    )
    first, second = sentences(Gate("failed", "a", "b", checks, None), words("en"))
    assert first.endswith("rows. Iterations are compared: their tokens are unknown and assumed to be equal.")
    assert second == f"cannot tell: the mfu is unknown. {words('en').finding('mfu_unknown', finding.numbers)}"
