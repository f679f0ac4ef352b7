"""Every finding has a sentence in every language, with the right numbers."""

from __future__ import annotations

import pytest

from nanopace.diagnosis.codes import FINDINGS
from nanopace.wording.advice import ADVICE, ADVICE_COST
from nanopace.wording.catalog import words
from nanopace.wording.numbers import LANGUAGES
from nanopace.wording.sentences import SENTENCES
from nanopace.wording.template import Template, placeholders

OTHERS = [language for language in LANGUAGES if language != "en"]
# Numbers that the contract allows to be unknown; the sentence must do without them.
MAY_BE_NONE = {"evaluation_rows": "interval", "mfu_zero": "achieved_tflops", "loss_noise": "accumulation"} | {
    "find_the_stall": "interval",
    "throttled_heat": "highest_celsius",
    "throttled_power": "median_watts",
    "utilisation_power_limited": "limited_mhz",
    "energy": "mean_watts",
    "micro_batch_reduced": "from_batch",
    "micro_batch_reduced_at_start": "from_batch",
    "micro_batch_reduced_in_evaluation": "from_batch",
    "calm_the_loss": "learning_rate",
    "use_float16": "dtype",
}


def forms(template: Template, language: str) -> list[tuple[str, str]]:
    """The English and translated text of each form of a template."""
    catalog = words(language)._catalog
    if template.many is None:
        return [(template.one, catalog.gettext(template.one))]
    return [
        (template.one, catalog.ngettext(template.one, template.many, 1)),
        (template.many, catalog.ngettext(template.one, template.many, 2)),
    ]


def example(code: str) -> dict[str, object]:
    """A value for each number of a finding, of the type that its name implies."""
    texts = {"knob", "used", "other", "missing", "knobs", "faster", "slower", "better", "worse", "early", "late"}
    texts |= {"leader", "follower", "card_name", "a_dataset", "b_dataset", "iterations"}
    return {name: f"<{name}>" if name in texts else 7 for name in FINDINGS[code]}


def test_there_is_a_sentence_for_each_finding_and_no_other() -> None:
    assert set(SENTENCES) == set(FINDINGS)
    assert set(ADVICE) <= set(FINDINGS)
    assert set(ADVICE_COST) <= set(ADVICE)


@pytest.mark.parametrize("code", FINDINGS)
def test_placeholders_are_numbers_of_the_finding(code: str) -> None:
    for sentence in filter(None, (SENTENCES[code], ADVICE_COST.get(code))):
        for template in sentence.templates:
            assert placeholders(template.one) <= set(FINDINGS[code])
            assert placeholders(template.many or "") <= set(FINDINGS[code])
            assert template.counted is None or template.counted in FINDINGS[code]


@pytest.mark.parametrize("language", OTHERS)
@pytest.mark.parametrize("code", FINDINGS)
def test_each_is_really_translated(code: str, language: str) -> None:
    for sentence in filter(None, (SENTENCES[code], ADVICE_COST.get(code))):
        for template in sentence.templates:
            for english, translated in forms(template, language):
                assert translated.strip()
                assert translated not in {template.one, template.many}, f"{code} is English in {language}"
                # A singular may leave its "1" out, but never name another number.
                assert placeholders(translated) <= placeholders(english) | {template.counted}
                if english != template.one or template.many is None:
                    assert placeholders(translated) == placeholders(english)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("code", FINDINGS)
def test_each_can_be_said(code: str, language: str) -> None:
    values = example(code)
    said = words(language).finding(code, values)
    assert "{" not in said
    assert said[-1] in ".:"
    used = {name for template in SENTENCES[code].templates[:1] for name in template.needs}
    for name in used:
        assert words(language).value(name, values[name]) in said


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(("code", "name"), MAY_BE_NONE.items())
def test_an_unknown_number_has_a_sentence_without_it(code: str, name: str, language: str) -> None:
    known = words(language).finding(code, example(code))
    unknown = words(language).finding(code, example(code) | {name: None})
    assert unknown != known
    assert words(language).text("unknown") not in unknown


def test_one_is_not_said_as_many() -> None:
    english = words("en")
    one = english.finding("evaluation_rows", example("evaluation_rows") | {"slow": 1})
    assert one.startswith("1 of 7 rows is slow")
    assert english.finding("evaluation_rows", example("evaluation_rows")).startswith("7 of 7 rows are slow")
    none_in_french = words("fr").finding("hidden_evaluations", example("hidden_evaluations") | {"hidden": 0})
    assert "évaluation sur" in none_in_french  # French treats zero as singular


def test_case_1_reads_as_it_should() -> None:
    values = {"evaluation_s": 5.136, "checkpoint_s": 0.467, "checkpoint_share": 0.083}
    said = words("en").finding("checkpoint_measured", values | {"saved_rows": 33, "unsaved_rows": 7})
    assert said.replace("\u00a0", " ") == (
        "Rows with a checkpoint (33) compared with rows without (7): the evaluation takes 5.14 s, the checkpoint "
        "0.47 s, 8.3% of the delay."
    )


def test_what_an_advice_costs() -> None:
    english = words("en")
    numbers = {"from_interval": 500, "to_interval": 2000, "evaluations": 10}
    cost = english.advice_cost("raise_eval_interval", numbers)
    assert cost is not None
    assert "10 times" in cost
    assert "2000 iterations" in cost
    assert english.advice_cost("lower_eval_iters", {"noise_factor": 2.0}) == "the validation loss gets 2x as noisy"
    assert english.advice_cost("nothing_to_change", {"overhead_share": 0.004}) is None


def test_a_missing_card_is_asked_for_by_its_flag() -> None:
    said = words("en").finding("mfu_unknown", {"missing": "gpu"})
    assert said == "The card's utilisation cannot be computed: the card is unknown. Pass --gpu NAME."
    both = words("en").finding("mfu_unknown", {"missing": "n_layer, gpu"})
    assert "without n_layer and the card. Pass --config FILE or --set NAME=VALUE, and --gpu NAME." in both
    assert "--gpu" not in words("en").finding("mfu_unknown", {"missing": "n_layer, n_head"})
