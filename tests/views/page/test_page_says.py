"""The page says what the terminal says, in every language."""

from __future__ import annotations

import dataclasses
import re

import pytest

from nanopace.diagnosis.codes import FINDINGS
from nanopace.diagnosis.comparison import Change, Comparison
from nanopace.diagnosis.result import Diagnosis, Finding
from nanopace.run import Fact
from nanopace.views.page.page import compare_page, explain_page
from nanopace.views.report import SECTIONS
from nanopace.views.sections import Explained
from nanopace.wording.catalog import words
from nanopace.wording.numbers import LANGUAGES

from ..cases import printed
from .seen import Seen, plain


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_answer_is_the_terminals(run: Diagnosis, lang: str) -> None:
    page = explain_page([run], words(lang))
    assert f'<html lang="{lang}" ' in page
    opening = plain(printed(run, lang=lang, width=120).split("\n\n")[0])
    title, answer = opening.split(words(lang).text("A normal step takes {step}.", step="|").partition("|")[0], 1)
    assert run.source.name in title
    assert answer
    assert answer in plain(Seen(page).text)


def test_every_finding_is_said_once_but_for_what_the_answer_says_in_its_own_words(run: Diagnosis) -> None:
    numbers = {
        code: {name: n + 2 if name not in ("knobs", "missing", "knob") else "n_embd" for n, name in enumerate(names)}
        for code, names in FINDINGS.items()
        if not code.startswith("compare_")
    }
    sectioned = {code for codes in SECTIONS.values() for code in codes}
    findings = tuple(Finding(code, values, advice=code not in sectioned) for code, values in numbers.items())
    plainly = dataclasses.replace(run, findings=findings, facts={})
    text = plain(Seen(explain_page([plainly], words("en"))).text)
    in_the_answer = Explained(plainly, words("en")).report.said
    for finding in findings:
        sentence = plain(words("en").finding(finding.code, finding.numbers))
        times = text.count(sentence) - text.count(f"Try: {sentence}")  # the answer has the best advice, too
        assert times == 1 or (times == 0 and in_the_answer(finding)), finding.code


def test_advice_has_its_saving_and_its_price(run: Diagnosis) -> None:
    advice = [finding for finding in run.findings if finding.advice and finding.saves_s is not None]
    assert advice
    text = plain(Seen(explain_page([dataclasses.replace(run, facts={})], words("en"))).text)
    for finding in advice:
        saving = words("en").duration(finding.saves_s), words("en").percent(finding.saves_share)
        row = [words("en").finding(finding.code, finding.numbers), "Saves {} ({}).".format(*saving)]
        cost = words("en").advice_cost(finding.code, finding.numbers)
        assert plain(" ".join([*row, *([f"Trade-off: {cost}."] if cost else [])])) in text


def test_what_the_cards_sensors_say_and_the_error_of_a_loss(run: Diagnosis) -> None:
    findings = (Finding("energy", {"energy_kwh": 1.234, "mean_watts": 312.0}),)
    loss = dataclasses.replace(run.loss, best_val=3.2841, best_val_error=0.0031)
    page = explain_page([dataclasses.replace(run, findings=findings, loss=loss)], words("en"))
    text = plain(Seen(page).text)
    assert text.count("The card used 1.23 kWh for this run, 312 W on average.") == 1
    assert "best validation 3.2841 ±0.0031" in text


def test_facts_have_their_origin_and_inferred_ones_a_mark(run: Diagnosis) -> None:
    facts = {"n_embd": Fact(384, "log"), "vocab_size": Fact(50304, "inferred", "first_loss")}
    text = plain(Seen(explain_page([dataclasses.replace(run, facts=facts)], words("en"))).text)
    assert "n_embd 384 from the log" in text
    assert "vocab_size ~50304 inferred: from the untrained model's loss" in text


@pytest.mark.parametrize("lang", LANGUAGES)
def test_settings_are_as_one_types_them_in_every_language(run: Diagnosis, pair: Comparison, lang: str) -> None:
    checksum = "3fa9c1d2e8" + "0" * 54
    facts = {
        "learning_rate": Fact(0.003, "log"),
        "min_lr": Fact(6e-05, "log"),
        "vocab_size": Fact(50304, "log"),
        "grad_clip": Fact(1.0, "log"),
        "compile": Fact(True, "log"),
        "corpus": Fact(checksum, "log"),
        "dataset": Fact("fineweb_edu_of_last_autumn", "log"),
    }
    text = plain(Seen(explain_page([dataclasses.replace(run, facts=facts)], words(lang))).text)
    told = ["learning_rate 0.003", "min_lr 6e-05", "vocab_size 50304", "grad_clip 1.0", "compile True"]
    for setting in (*told, "corpus 3fa9c1d2e8…", "dataset fineweb_edu_of_last_autumn"):
        assert f"{setting} " in text
    changed = dataclasses.replace(pair, changed=(Change("learning_rate", 0.003, 0.0006, "log", "inferred"),))
    assert "learning_rate 0.003 ~0.0006" in plain(Seen(compare_page([changed], words(lang))).text)


def test_what_took_next_to_nothing_is_in_the_table_and_not_in_the_strip(run: Diagnosis) -> None:
    total = run.wall.total_s
    wall = dataclasses.replace(run.wall, stall_s=0.00007 * total, restart_s=0.003 * total)
    seen = Seen(explain_page([dataclasses.replace(run, wall=wall)], words("en")))
    drawn = [span["style"] or "" for span in seen.with_tag("span") if "--share" in (span.get("style") or "")]
    assert [style for style in drawn if "--restart)" in style] == ["--share:0.003000;--shade:var(--restart)"]
    assert not any("--stall)" in style for style in drawn)
    assert words("en").phase("stall") in plain(seen.text)


def test_a_comparison_opens_with_the_verdict_and_has_all_tables(pair: Comparison) -> None:
    seen = Seen(compare_page([pair], words("en")))
    text = plain(seen.text)
    assert re.search(r"B is [\d.]+% slower than A: ~?[\d.]+k against", text)
    assert text.index("slower than A") < text.index("The runs overlaid")
    for change in pair.changed:
        assert change.knob in text
    assert len(pair.equal_time) > 3
    for at in (*pair.equal_time, *pair.equal_tokens, *pair.equal_flops):
        assert words("en").number(at.b, 4) in text
    charts = seen.data["charts"]
    assert isinstance(charts, dict)
    overlaid = {"all-times", "all-loss-tokens", "all-loss-seconds", "all-throughput", "all-mfu"}
    assert set(charts) == overlaid | {"all-arrival-seconds", "all-arrival-tokens"}


def test_three_runs(pair: Comparison) -> None:
    text = plain(Seen(compare_page([pair, pair], words("en"))).text)
    assert "B against A" in text
    assert "C against A" in text


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_page_speaks_one_language(run: Diagnosis, pair: Comparison, lang: str) -> None:
    for page in (explain_page([run], words(lang)), compare_page([pair], words(lang))):
        assert Seen(page).data["lang"] == lang
    step = words(lang).ms(run.step.median_ms)
    assert ("," if lang != "en" else ".") in step
    assert step in Seen(explain_page([run], words(lang))).text


def test_many_runs_are_counted_in_the_heading_and_what_holds_for_all_is_said_once(pair: Comparison) -> None:
    caveat = Finding("compare_data_unknown", {"target_metric": None})
    several = [dataclasses.replace(pair, findings=(*pair.findings, caveat))] * 3
    seen = Seen(compare_page(several, words("en")))
    text = plain(seen.text)
    assert "4 training runs, compared" in text
    verdict = text[text.index("B against A") : text.index("Point at a chart")]
    assert "comparable only if both" not in verdict
    assert "against" in plain(Seen(compare_page(several[:1], words("en"))).text).partition("slower")[0]
