"""The terminal report, the page and the JSON for three or more runs."""

from __future__ import annotations

import json
import re

import pytest

from nanopace.diagnosis.compare.compare import compare
from nanopace.diagnosis.comparison import Comparison
from nanopace.diagnosis.result import Diagnosis
from nanopace.record import replace
from nanopace.run import Fact
from nanopace.views.json import compare_json
from nanopace.views.page.page import compare_page
from nanopace.wording.catalog import words
from nanopace.wording.numbers import LANGUAGES

from ..cases import case_1, printed

LONG = "run-20260101_120000-a-name-as-long-as-weights-and-biases-make-them-{}.log"
KNOBS = {"batch_size": 12, "gradient_accumulation_steps": 4, "block_size": 1024, "n_layer": 12, "n_head": 12}


def run(number: int) -> Diagnosis:
    """Each is wider, slower and better than the one before."""
    found = case_1(LONG.format(number))
    seconds = tuple(600.0 * (1 + number / 10) * k for k in range(9))
    vals = (10.9, *(4.0 - 0.1 * number + 3 / k for k in range(1, 9)))
    curves = replace(
        found.curves,
        eval_iteration=tuple(range(0, 4500, 500)),
        eval_seconds=seconds,
        eval_val=vals,
        eval_train=vals,
        eval_saved=(False,) * 9,
    )
    speed = 100_000.0 / (1 + number / 10)
    facts = {name: Fact(value, "log") for name, value in (KNOBS | {"n_embd": 384 + 64 * number}).items()}
    return replace(
        found,
        facts=facts,
        curves=replace(curves, eval_bits=()),
        throughput=replace(found.throughput, tokens_per_s=speed, tokens_per_iteration=49_152.0),
        model=replace(found.model, parameters=40e6 + 1e7 * number, flops_per_token=3e8 + 6e7 * number),
    )


def runs(count: int) -> list[Comparison]:
    first, *others = (run(number) for number in range(count))
    return [compare(first, other) for other in others]


def test_the_order_and_the_table_come_first() -> None:
    text = printed(*runs(4))
    opening, table = text.split("\n\n")[:2]
    assert " ".join(opening.split()) == (
        "The losses are comparable only if all runs train on the same data, which the logs do not show. Ranked by "
        "best validation loss after 1 h 20 min: D, C, B, A."
    )
    assert re.findall(r"^  ([A-D]) ", table, re.MULTILINE) == ["D", "C", "B", "A"]
    assert re.search(r"^  A +40\.0M .*100\.0k ", table, re.MULTILINE)


@pytest.mark.parametrize("language", LANGUAGES)
def test_six_runs_fit_on_two_screens(language: str) -> None:
    lines = printed(*runs(6), lang=language).splitlines()
    assert len(lines) <= 100
    assert max(map(len, lines)) <= 80


def test_a_sentence_is_said_once_for_all_pairs() -> None:
    text = " ".join(printed(*runs(5)).split())
    assert text.count("on the same machine, it causes the difference") == 1
    assert "A – B, C, D, E: n_embd is the only setting" in text


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("count", [3, 6, 12])
def test_no_word_of_a_table_is_broken(language: str, count: int) -> None:
    """Every word in the narrow tables is also in the wide ones, which have room for all."""
    narrow, wide = (set(printed(*runs(count), lang=language, width=width).split()) for width in (80, 120))
    assert narrow == wide


def test_details_of_pairs_with_verbose() -> None:
    text = printed(*runs(3), verbose=True)
    assert "What changed (A, C)" in text
    assert "Best validation loss so far, at equal tokens, time and compute (A, B)" in text


def test_the_page_has_the_same_table_first() -> None:
    page = compare_page(runs(3), words("en"))
    assert page.index("Ranked by best validation loss") < page.index("<caption>Ranking") < page.index("What changed")
    assert "Ranked by" not in compare_page(runs(2), words("en"))


def test_the_json_has_the_order() -> None:
    document = json.loads(compare_json(runs(4)))
    assert document["ranking"]["by"] == "loss_time"
    assert [each["run"] for each in document["ranking"]["runs"]] == [3, 2, 1, 0]
    assert "ranking" not in json.loads(compare_json(runs(2)))
