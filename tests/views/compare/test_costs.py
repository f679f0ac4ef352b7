"""What compared runs cost: each of them, and until both reached the same loss."""

from __future__ import annotations

from pathlib import Path

import pytest

from nanopace import diagnose, open_run, render
from nanopace.diagnosis.billing import billed
from nanopace.diagnosis.compare.compare import compare
from nanopace.diagnosis.comparison import Comparison
from nanopace.diagnosis.result import Diagnosis
from nanopace.prices import Prices
from nanopace.record import replace
from nanopace.views.compare.costs import arrival_cost, bill_rows, cost_verdict, money
from nanopace.wording.catalog import UNKNOWN, words
from nanopace.wording.numbers import LANGUAGES

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
CHEAP, DEAR = Prices(0.35, currency="EUR"), Prices(0.50, currency="EUR")


def run(name: str, prices: Prices | None) -> Diagnosis:
    return billed(diagnose(open_run(EXAMPLES / f"{name}.log", gpu="4070")), prices)


def pair(a: Prices | None = CHEAP, b: Prices | None = DEAR) -> Comparison:
    return compare(run("wide", a), run("narrow", b))


def plain(result: Comparison | list[Comparison], lang: str = "en") -> str:
    return " ".join(render(result, lang=lang).split()).replace("\u00a0", " ")


def test_the_verdict_names_the_cost_of_the_same_loss() -> None:
    assert "To reach 3.5626, A costs EUR 4.11 and B EUR 8.38." in plain(pair())
    page = render(pair(), format="html").replace("\u00a0", " ")
    assert "To reach 3.5626, A costs EUR 4.11 and B EUR 8.38." in page


def test_without_a_common_loss_it_names_the_cost_of_the_runs() -> None:
    found = replace(pair(), arrival=None, arrival_money=None)
    assert cost_verdict(found, words("en")) == ["A has cost EUR\u00a04.38, B EUR\u00a010.95."]


def test_the_tables_have_a_row() -> None:
    found, english = pair(), words("en")
    assert arrival_cost(found, english) == [("cost", "EUR\u00a04.11", "EUR\u00a08.38", "×2.04")]
    assert bill_rows(found.a, found.b, english) == [("cost", "EUR\u00a04.38", "EUR\u00a010.95", "×2.50")]
    energy = pair(Prices(kwh=0.3, co2_g_per_kwh=380.0), Prices(kwh=0.3, co2_g_per_kwh=380.0))
    assert [row[0] for row in bill_rows(energy.a, energy.b, english)] == ["cost", "energy", "CO₂"]
    assert all(text.startswith("≤") for row in bill_rows(energy.a, energy.b, english) for text in row[1:3])
    assert {row[3] for row in bill_rows(energy.a, energy.b, english)} == {""}  # the ratio of bounds bounds nothing
    assert [row[3] for row in arrival_cost(energy, english)] == [""]
    assert "Energy: at most" in plain(energy)


def test_a_price_for_one_run_only() -> None:
    found, english = pair(None, DEAR), words("en")
    assert cost_verdict(found, english) == []
    assert arrival_cost(found, english) == []
    assert bill_rows(found.a, found.b, english) == [("cost", UNKNOWN, "EUR\u00a010.95", "")]
    assert money(found.a, english) == UNKNOWN


def test_why_it_is_unknown_is_said_of_each_run() -> None:
    found = pair(Prices(kwh=0.3), Prices(kwh=0.3))
    without = [replace(each, facts={k: v for k, v in each.facts.items() if k != "gpu"}) for each in (found.a, found.b)]
    a, b = (billed(each, Prices(kwh=0.3)) for each in without)
    told = cost_verdict(compare(a, b), words("en"))
    assert [line[:2] for line in told] == ["A:", "B:"]
    assert "no power readings" in told[0]
    half_known = compare(billed(without[0], Prices(kwh=0.3)), run("narrow", CHEAP))
    assert [line[:2] for line in cost_verdict(half_known, words("en"))] == ["A:"]
    assert arrival_cost(half_known, words("en")) == []
    rows = bill_rows(billed(without[0], Prices(0.35, 0.3)), run("narrow", Prices(0.35, 0.3)), words("en"))
    assert rows[1][:2] == ("energy", UNKNOWN)
    mirrored = bill_rows(run("narrow", Prices(0.35)), billed(without[0], Prices(kwh=0.3)), words("en"))
    assert [row[2:] for row in mirrored] == [(UNKNOWN, "")]


@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_ranking_has_a_column(lang: str) -> None:
    third = run("slow-rows", CHEAP)
    found = plain([pair(), compare(run("wide", CHEAP), third)], lang)
    for amount in ("4.38", "10.95", "4.11", "8.38"):
        shown = amount if lang == "en" else amount.replace(".", ",")
        assert (f"EUR {shown}" if lang == "en" else f"{shown} EUR") in found


@pytest.mark.parametrize("lang", LANGUAGES)
def test_nothing_changes_without_a_price(lang: str) -> None:
    free = pair(None, None)
    assert f" {words(lang).text('cost')} " not in plain(free, lang)
    assert bill_rows(free.a, free.b, words(lang)) == []
    assert words(lang).text("cost of {run}", run="A") not in plain([free, free], lang)
