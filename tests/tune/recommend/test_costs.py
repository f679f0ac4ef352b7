"""What a recommended training costs: hours and energy times prices, for each option that has hours."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from nanopace.errors import UsageError
from nanopace.hardware.cards import find_card
from nanopace.prices import Prices
from nanopace.tune.recommend.costs import card_prices, cost_notes, cost_sentence, costs_of, money_of
from nanopace.tune.recommend.models import NAMED
from nanopace.tune.recommend.recommend import Recommendation, recommend
from nanopace.tune.recommend.recommend_view import Answer, document, write
from nanopace.views.json import recommend_json
from nanopace.wording.catalog import UNKNOWN, words

from .. import printing

GPT2 = NAMED["gpt2"]
EUROS = Prices(2.0, currency="EUR")


def on(card: str) -> Recommendation:
    return recommend(find_card(card), GPT2)


def printed(*answers: Answer) -> str:
    return printing.printed(write, answers).replace("\u00a0", " ")


def test_it_is_hours_times_the_price() -> None:
    found = on("H200")
    costs = costs_of(found, EUROS)
    hours = [found.seconds.low / 3600, found.seconds.expected / 3600, found.seconds.high / 3600]
    assert [costs.one.money.low, costs.one.money.expected, costs.one.money.high] == pytest.approx(
        [2 * each for each in hours]
    )
    assert costs.fast.money.expected == pytest.approx(2 * found.fast_seconds.expected / 3600)


def test_every_card_is_paid() -> None:
    found = on("H200")
    costs = costs_of(found, Prices(2.0, 0.5))
    assert [each.gpus for each in costs.together] == [each.count for each in found.together] == [1, 2, 4, 8]
    for cost, option in zip(costs.together, found.together, strict=True):
        hours = option.count * option.seconds.expected / 3600
        assert cost.money.expected == pytest.approx(hours * (2.0 + 0.5 * 0.7))  # an H200 draws 700 W


def test_energy_is_the_board_power() -> None:
    found = on("4070")
    costs = costs_of(found, Prices(kwh=0.3, co2_g_per_kwh=400.0))
    assert costs.board_power_w == pytest.approx(200.0)
    assert costs.one.kwh.expected == pytest.approx(found.kwh.expected)
    assert costs.one.money.expected == pytest.approx(0.3 * found.kwh.expected)
    assert costs.one.co2_kg.high == pytest.approx(0.4 * found.kwh.high)


def test_what_is_unknown_costs_nothing_known() -> None:
    found = replace(on("4070"), kwh=None)
    english = words("en")
    only_power = costs_of(found, Prices(kwh=0.3))
    assert only_power.one.money is None
    assert cost_sentence(only_power, english) == ["Its cost is unknown."]
    both = costs_of(found, Prices(1.0, 0.3))
    assert both.one.money is not None
    assert "without electricity" in cost_notes(both, english)[0]
    assert cost_notes(only_power, english) == cost_notes(costs_of(found, EUROS), english) == []
    assert cost_notes(costs_of(on("4070"), Prices(1.0, 0.3)), english) == []
    assert "without electricity" in " ".join(printed(Answer(found, costs=both)).split())
    slow = replace(found, seconds=None, fast_seconds=None)
    assert costs_of(slow, EUROS).one.money is None
    assert cost_sentence(costs_of(on("4070"), Prices(co2_g_per_kwh=380.0)), english) == []


def test_the_report_has_it_wherever_it_has_hours() -> None:
    found = on("H200")
    told = printed(Answer(found, costs=costs_of(found, EUROS)))
    assert "Cost: about EUR 2.2" in " ".join(told.split())
    assert "cost with --recipe=fast" in told
    together = told[told.index("One card and several") : told.index("Settings and reasons")]
    assert together.count("EUR") == 4
    assert "cost" in together.splitlines()[1]


def test_only_co2_is_no_cost() -> None:
    found = on("4070")
    costs, english = costs_of(found, Prices(co2_g_per_kwh=380.0)), words("en")
    assert money_of(costs, lambda each: each.one, english) == ""
    assert money_of(None, lambda each: each.one, english) == ""
    assert money_of(costs_of(found, EUROS), lambda _: None, english) == UNKNOWN
    assert cost_notes(costs, english) == []
    told = printed(Answer(found, costs=costs))
    assert "CO₂" in told
    assert "cost" not in {line[:22].strip() for line in told.splitlines()}


def test_side_by_side() -> None:
    answers = [Answer(found, costs=costs_of(found, EUROS)) for found in (on("H200"), on("4070"))]
    rows = {line[:22].strip(): line for line in printed(*answers).splitlines()}
    assert rows["cost"].count("EUR") == 2
    assert rows["cost with 8 cards"].count("EUR") == 2
    free = printed(*(Answer(each.found) for each in answers))
    assert "cost" not in {line[:22].strip() for line in free.splitlines()}


def test_json_has_it_only_with_prices() -> None:
    found = on("4070")
    assert "costs" not in document(Answer(found))
    costs = costs_of(found, EUROS)
    assert document(Answer(found, costs=costs))["costs"] is costs
    written = json.loads(recommend_json([document(Answer(found, costs=costs))]))["costs"]
    assert {*written} == {
        *("currency", "per_gpu_hour", "per_kwh", "co2_g_per_kwh", "board_power_w", "one", "fast", "together")
    }
    assert {*written["one"]} == {*written["fast"]} == {*written["together"][0]} == {"gpus", "money", "kwh", "co2_kg"}
    assert {*written["one"]["money"]} == {"low", "expected", "high"}


def test_a_price_for_each_card() -> None:
    of = card_prices(["RTX 4090=0.35", "2 EUR"], ["50"], ["4070", "rtx4090"])
    assert of("rtx4090") == Prices(0.35, None, "EUR", 50.0)
    assert of("4070") == Prices(2.0, None, "EUR", 50.0)
    assert card_prices(["4070=1"], [], ["4070", "4090"])("4090") is None
    with pytest.raises(UsageError) as caught:
        card_prices(["4080=1"], [], ["4070", "4090"])
    assert str(caught.value) == "--price 4080=1: no such card in --gpu; there are 4070, 4090"
    with pytest.raises(UsageError, match="--co2 4080=1: no such card"):
        card_prices([], ["4080=1"], ["4070"])
