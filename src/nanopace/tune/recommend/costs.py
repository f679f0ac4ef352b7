"""What a recommended training costs, if prices are given: hours and kilowatt-hours times the prices."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from nanopace.errors import UsageError
from nanopace.hardware.speed import Range
from nanopace.price_text import price_list, prices_of
from nanopace.prices import JOULES_PER_KWH, Prices
from nanopace.tune.recommend.recommend import Recommendation
from nanopace.wording.catalog import UNKNOWN, Words


@dataclass(frozen=True, slots=True)
class Cost:
    """What some time on some cards costs, from its fastest to its slowest. None: unknown, or not asked for."""

    gpus: int
    money: Range | None
    kwh: Range | None
    co2_kg: Range | None


@dataclass(frozen=True, slots=True)
class Costs:
    """The costs of one recommendation."""

    currency: str | None
    per_gpu_hour: float | None  # the prices that were given
    per_kwh: float | None
    co2_g_per_kwh: float | None
    board_power_w: float | None  # of one card; without it, electricity is left out
    one: Cost  # a single card, to the token budget
    fast: Cost  # to the same loss with recipe=fast
    together: tuple[Cost, ...]  # as in Recommendation.together

    @property
    def of_money(self) -> bool:
        """Whether a price was given, and not only --co2."""
        return self.per_gpu_hour is not None or self.per_kwh is not None


def costs_of(found: Recommendation, prices: Prices) -> Costs:
    """What the recommended training costs on one card and on several."""
    watts = None
    if found.kwh is not None and found.seconds is not None and found.seconds.expected > 0:
        watts = found.kwh.expected * JOULES_PER_KWH / found.seconds.expected

    def cost(seconds: Range | None, gpus: int = 1) -> Cost:
        if seconds is None:
            return Cost(gpus, None, None, None)
        drawn = None if watts is None else gpus * watts
        used = [prices.of_time(each, gpus, drawn) for each in (seconds.low, seconds.expected, seconds.high)]
        return Cost(
            gpus,
            _range([each.money for each in used]),
            _range([each.kwh for each in used]),
            _range([each.co2_kg for each in used]),
        )

    return Costs(
        currency=prices.currency,
        per_gpu_hour=prices.gpu_hour,
        per_kwh=prices.kwh,
        co2_g_per_kwh=prices.co2_g_per_kwh,
        board_power_w=watts,
        one=cost(found.seconds),
        fast=cost(found.fast_seconds),
        together=tuple(cost(each.seconds, each.count) for each in found.together),
    )


def _range(of_three: Sequence[float | None]) -> Range | None:
    known = [each for each in of_three if each is not None]
    return Range(*known) if len(known) == len(of_three) else None


# --- the flags -------------------------------------------------------------------------------------------------------


def card_prices(prices: Sequence[str], co2: Sequence[str], cards: Sequence[str]) -> Callable[[str], Prices | None]:
    """The prices of each card. `4090=0.35` is that of one of these cards, `0.35` that of all others."""
    names = {_key(card): card for card in cards}

    def split(flag: str, text: str) -> tuple[str, str]:
        card, sign, rest = text.rpartition("=")
        if not sign:
            return "", text
        if _key(card) not in names:
            known = ", ".join(cards)
            raise UsageError(
                "{flag} {text}: no such card in --gpu; there are {known}", flag=flag, text=text, known=known
            )
        return _key(card), rest

    listed: Mapping[str, Prices] = price_list(
        [split("--price", text) for text in prices], [split("--co2", text) for text in co2]
    )
    return lambda card: prices_of(listed, _key(card))


def _key(card: str) -> str:
    return "".join(card.casefold().split())


# --- texts -----------------------------------------------------------------------------------------------------------


def money_text(costs: Costs, words: Words) -> Callable[[float | None], str]:
    """How money is written: in the currency of the prices."""
    return lambda money: words.money(money, costs.currency)


def money_of(costs: Costs | None, of: Callable[[Costs], Cost | None], words: Words) -> str:
    """The expected cost; empty without prices, so that a table leaves it out."""
    cost = None if costs is None else of(costs)
    if costs is None or not costs.of_money:
        return ""
    return UNKNOWN if cost is None or cost.money is None else money_text(costs, words)(cost.money.expected)


def cost_ranges(costs: Costs | None, words: Words) -> list[tuple[str, Range | None, Callable[[float | None], str]]]:
    """The figures of a table, each with its range and how it is written."""
    if costs is None:
        return []
    money = money_text(costs, words)
    return [
        (words.text("cost"), costs.one.money, money),
        (words.text("cost with --recipe=fast"), costs.fast.money, money),
        ("CO₂", costs.one.co2_kg, words.co2),
    ]


def cost_sentence(costs: Costs | None, words: Words) -> list[str]:
    """For the first lines: what it costs, or why that is unknown."""
    if costs is None or not costs.of_money:
        return []
    money, shown = costs.one.money, money_text(costs, words)
    if money is None:
        return [words.text("Its cost is unknown.")]
    low, high = shown(money.low), shown(money.high)
    return [words.text("Cost: about {cost} ({low} to {high}).", cost=shown(money.expected), low=low, high=high)]


def cost_notes(costs: Costs | None, words: Words) -> list[str]:
    """What the costs leave out."""
    if costs is None or costs.one.money is None or costs.per_kwh is None or costs.board_power_w is not None:
        return []
    return [words.text("The cost is without electricity: the board power of this card is not in the table.")]
