"""What a run costs in money, where a person gives a price: an hour of the machine, or a kilowatt-hour."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from nanopace.errors import UsageError
from nanopace.wording.catalog import Words

_PRICE = re.compile(r"\s*([$€£¥]?)\s*(\d{1,9}(?:[.,]\d{1,6})?)\s*([A-Z]{3}|[$€£¥])?\s*(?:/\s*(h|kwh))?\s*", re.I)


class Price(NamedTuple):
    amount: float
    currency: str  # as it was given; may be empty
    per: Literal["h", "kWh"]

    def cost(self, hours: float | None, kwh: float | None) -> float | None:
        """None where the hours, or the energy, are unknown."""
        quantity = hours if self.per == "h" else kwh
        return None if quantity is None else quantity * self.amount

    def shown(self, cost: float, words: Words) -> str:
        digits = 2 if cost >= 0.1 else 4
        return f"{words.number(cost, digits)} {self.currency}".strip()


def read_price(text: str) -> Price:
    """ "0.35", "0.35/h", "0.30 EUR/kWh", "$2.49/h": by the hour where nothing else is said."""
    found = _PRICE.fullmatch(text)
    if found is None:
        raise UsageError("--price {text}: not a price; write 0.35, '$2.49/h' or '0.30 EUR/kWh'", text=text)
    before, amount, after, per = found.groups()
    unit: Literal["h", "kWh"] = "kWh" if (per or "h").lower() == "kwh" else "h"
    return Price(float(amount.replace(",", ".")), before or after or "", unit)
