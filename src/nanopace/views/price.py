"""What a run costs, given a price per hour of the machine or per kilowatt-hour."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from nanopace.errors import UsageError
from nanopace.wording.catalog import Words

_PRICE = re.compile(r"\s*([$€£¥]?)\s*(\d{1,9}(?:[.,]\d{1,6})?)\s*([A-Z]{3}|[$€£¥])?\s*(?:/\s*(h|kwh))?\s*", re.I)


class Price(NamedTuple):
    amount: float
    currency: str  # as given; may be empty
    per: Literal["h", "kWh"]

    def cost(self, hours: float | None, kwh: float | None) -> float | None:
        """The cost; None if the hours or the energy are unknown."""
        quantity = hours if self.per == "h" else kwh
        return None if quantity is None else quantity * self.amount

    def shown(self, cost: float, words: Words) -> str:
        digits = 2 if cost >= 0.1 else 4
        return f"{words.number(cost, digits)} {self.currency}".strip()


def read_price(text: str) -> Price:
    """Read a price, per hour by default: "0.35", "0.35/h", "0.30 EUR/kWh" or "$2.49/h" are all accepted."""
    found = _PRICE.fullmatch(text)
    if found is None:
        raise UsageError("--price {text}: not a price; write 0.35, '$2.49/h' or '0.30 EUR/kWh'", text=text)
    before, amount, after, per = found.groups()
    unit: Literal["h", "kWh"] = "kWh" if (per or "h").lower() == "kwh" else "h"
    return Price(float(amount.replace(",", ".")), before or after or "", unit)
