"""What a report says about other trainers' logs must be true for them, and must not advise what they cannot do."""

from __future__ import annotations

import io
import re

import pytest

from nanopace.diagnosis.codes import ELSEWHERE as MORE
from nanopace.diagnosis.codes import FINDINGS
from nanopace.diagnosis.diagnose import diagnose
from nanopace.diagnosis.other_trainers import _MORE, said_elsewhere
from nanopace.diagnosis.result import Finding
from nanopace.errors import InputError
from nanopace.run import Because, Fact, Row, Rows, Run
from nanopace.sources.formats.table import BUILT_IN
from nanopace.sources.runs import open_runs
from nanopace.wording.advice import ADVICE_COST
from nanopace.wording.catalog import words
from nanopace.wording.other_trainers import COST_ELSEWHERE, ELSEWHERE
from nanopace.wording.sentences import SENTENCES
from nanopace.wording.template import placeholders

from ..sources.formats.test_every_example import EXAMPLES, data_of

NANOGPT_KNOBS = re.compile(
    r"\b(?:log_interval|eval_interval|eval_iters|batch_size|gradient_accumulation_steps|learning_rate|warmup_iters)\b"
    r"|dtype=|--config"
)
FORMATS = {each.name: each for each in BUILT_IN}
FOREIGN = Run("log", "other", Rows([Row(0, 1.0)]), nanogpt_knobs=False, gpt2_shape=False)
SHAPED = Run("log", "other", Rows([Row(0, 1.0)]), nanogpt_knobs=False)


def said(run: Run, finding: Finding) -> str:
    (fitted,) = said_elsewhere(run, [finding])
    return words("en").finding(fitted.code, fitted.numbers)


def test_both_tables_have_the_same_codes() -> None:
    assert set(ELSEWHERE) == set(_MORE) <= set(FINDINGS)
    assert set(COST_ELSEWHERE) <= set(ADVICE_COST)


@pytest.mark.parametrize("code", ELSEWHERE)
def test_a_sentence_has_its_numbers_and_names_no_knob_of_nanogpt(code: str) -> None:
    for template in (*ELSEWHERE[code].templates, *(COST_ELSEWHERE[code].templates if code in COST_ELSEWHERE else ())):
        for text in (template.one, template.many or ""):
            assert placeholders(text) <= {*FINDINGS[code], *MORE}
            assert not NANOGPT_KNOBS.search(re.sub(r"\{\w+\}", "", text))


@pytest.mark.parametrize("code", FINDINGS)
def test_every_sentence_that_names_a_knob_has_another_for_other_trainers(code: str) -> None:
    """Or is never said about them."""
    of_ours_alone = {"lower_eval_iters", "lower_eval_iters_unknown", "use_float16", "smaller_micro_batch"}
    texts = [text for each in SENTENCES[code].templates for text in (each.one, each.many or "")]
    names = any(NANOGPT_KNOBS.search(re.sub(r"\{\w+\}", "", text)) for text in texts)
    assert not names or code in {*ELSEWHERE, *of_ours_alone} or code.startswith("compare_")


@pytest.mark.parametrize(
    ("run", "missing", "expected"),
    [
        (FOREIGN, "gpu", "the card is unknown. Pass --gpu NAME."),
        (FOREIGN, "n_layer, n_embd, gpu", "the log does not show how many FLOPs a step takes."),
        (FOREIGN, "tokens_per_iteration", "the log does not show how many FLOPs a step takes."),
        (
            SHAPED,
            "n_layer, n_embd, gpu",
            "without n_layer, n_embd and the card. Pass --set NAME=VALUE and --gpu NAME.",
        ),
        (SHAPED, "n_layer", "without n_layer. Pass --set NAME=VALUE."),
    ],
)
def test_only_what_helps_is_asked_for(run: Run, missing: str, expected: str) -> None:
    assert said(run, Finding("mfu_unknown", {"missing": missing})).endswith(expected)


@pytest.mark.parametrize(
    ("compiles", "known", "mentioned"),
    [(True, None, True), (True, False, True), (True, True, False), (False, None, False)],
)
def test_who_cannot_compile_or_does_is_not_told_to(compiles: bool, known: bool | None, mentioned: bool) -> None:
    facts = {} if known is None else {"compile": Fact(known, "log")}
    run = Run("log", "other", Rows([Row(0, 1.0)]), nanogpt_knobs=False, compiles=compiles, facts=facts)
    for code in ("utilisation_half_idle", "utilisation_mostly_idle"):
        assert ("compile" in said(run, Finding(code, {"card": 0.1, "card_name": "H100"}))) == mentioned
    numbers = {"iteration": 0, "total_s": 9.0, "step_s": 1.0, "evaluation_s": 3.0, "compile_s": 5.0}
    for code in ("startup_compile", "startup", "startup_bounded", "startup_together", "startup_unsplit"):
        startup = said(run, Finding(code, numbers))
        assert ("compilation" in startup) == (compiles and known is not False), "where it is off, nothing was compiled"


@pytest.mark.parametrize(
    ("run", "may"),
    [
        (Run("log", "nanogpt", Rows([Row(500, 1.0)])), True),
        (Run("log", "nanogpt", Rows([Row(0, 1.0)])), False),
        (Run("log", "other", Rows([Row(0, 1.0)]), nanogpt_knobs=False), True),
    ],
)
def test_the_only_row_of_an_excerpt_may_be_a_plain_one(run: Run, may: bool) -> None:
    (finding,) = (each for each in diagnose(run).findings if each.code == "no_plain_row")
    assert ("may contain" in words("en").finding(finding.code, finding.numbers)) == may


@pytest.mark.parametrize(("because", "settings"), [("printed_tflops", False), ("model_shape", True)])
def test_flops_that_the_trainer_printed_are_not_explained_by_settings(because: Because, settings: bool) -> None:
    facts = {"flops_per_token": Fact(1e15, "inferred", because)}
    run = Run("log", "torchtitan", Rows([Row(0, 1.0)]), nanogpt_knobs=False, facts=facts)
    text = said(run, Finding("card_above_peak", {"card": 200.0, "card_name": "H100", "card_tflops": 989.0}))
    assert ("model settings" in text) == settings


def test_a_peak_that_the_log_names_is_not_that_of_any_card() -> None:
    numbers = {"steady_printed": 0.4, "printed_peak_tflops": 989.0, "achieved_tflops": 400.0}
    for origin, of_any in (("log", False), ("inferred", True)):
        facts = {"printed_peak_tflops": Fact(989.0, origin)}
        run = Run("log", "other", Rows([Row(0, 1.0)]), nanogpt_knobs=False, facts=facts)
        assert ("any card" in said(run, Finding("mfu_card_unknown", numbers))) == of_any


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_reports_of_other_trainers_wherever_their_log_ends(name: str) -> None:
    """One row, two rows, only evaluations so far: every prefix of each example."""
    data = data_of(name)
    ends = {at + 1 for at in range(len(data)) if data[at : at + 1] == b"\n"} | {len(data)}
    for end in sorted(ends):
        try:
            runs = open_runs(io.BytesIO(data[:end]))
        except InputError:
            continue
        for run in runs:
            for finding in diagnose(run).findings:
                sentence = words("en").finding(finding.code, finding.numbers)
                assert run.nanogpt_knobs or not NANOGPT_KNOBS.search(sentence), sentence
                assert FORMATS[name].compiles or "compile" not in sentence, sentence
                assert not re.search(r"\b0 of 0\b|\bNone\b|\bnan\b|n/a|\b1 rows\b", sentence), sentence
