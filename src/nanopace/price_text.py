"""What a GPU hour and a kilowatt-hour cost, as people write it, and the CO2 of a kilowatt-hour.

`--price` may be given once for GPU hours and once for electricity. The currency is only repeated, never converted, so
all prices of a command have the same one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Literal

from nanopace.errors import UsageError
from nanopace.prices import Prices

Unit = Literal["gpu_hour", "kwh"]

SIGNS = "$€£¥₹₩₺₽₴₪₫฿₱₦₲₡₸₼₾₿"
# ISO 4217, so that "0.35 day" is no currency.
_CODES = (
    "AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BGN BHD BIF BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF CHF CLP "
    "CNY COP CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GNF GTQ GYD HKD HNL HTG HUF "
    "IDR ILS INR IQD IRR ISK JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP LKR LRD LSL LYD MAD MDL MGA MKD "
    "MMK MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR PLN PYG QAR RON RSD RUB "
    "RWF SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SYP SZL THB TJS TMT TND TOP TRY TTD TWD TZS UAH UGX USD UYU "
    "UZS VED VES VND VUV WST XAF XCD XOF XPF YER ZAR ZMW ZWG"
)

_NUMBER = r"(?P<number>\d{1,9}(?:[.,]\d{1,6})?|[.,]\d{1,6})"
_SIGN = rf"[{re.escape(SIGNS)}]|[A-Z]{{3}}"
_PRICE = re.compile(
    rf"(?P<before>{_SIGN})?\s*{_NUMBER}\s*(?P<after>{_SIGN})?"
    r"(?:\s*(?:/|\bper\b)\s*(?:(?:GPU[\s-]?)?(?:h|hr|hour)|(?P<kwh>kWh)))?",
    re.ASCII | re.IGNORECASE,
)
_CO2 = re.compile(rf"{_NUMBER}\s*(?P<unit>k?g)?(?:\s*(?:/|\bper\b)\s*kWh)?", re.ASCII | re.IGNORECASE)
_GROUPED = re.compile(r"[1-9]\d{0,2},\d{3}")  # 1,234: over a thousand, or a little over one?
_MOST_CO2_G = 3000.0  # per kWh: twice the oldest lignite plant; more is a slip of units


def read_price(text: str) -> tuple[float, str | None, Unit]:
    """Read a price, per GPU hour by default: "0.35", "$2.49/h", "0,35 EUR" or "0.30 EUR/kWh" are all accepted."""
    found = _PRICE.fullmatch(_plain(text))
    if found is None or _GROUPED.fullmatch(found["number"]) or (found["before"] and found["after"]):
        raise UsageError("--price {text}: not a price; write 0.35, '$2.49/h' or '0.30 EUR/kWh'", text=text)
    currency = (found["before"] or found["after"] or "").upper() or None
    if currency is not None and currency.isascii() and currency.isalpha() and currency not in _CODES.split():
        raise UsageError("--price {text}: {currency} is not a currency", text=text, currency=currency)
    return _number(found), currency, "kwh" if found["kwh"] else "gpu_hour"


def read_co2(text: str) -> float:
    """Read grams of CO2 per kWh: "380", "380 g/kWh" or "0.38 kg/kWh"."""
    found = _CO2.fullmatch(_plain(text))
    if found is None or _GROUPED.fullmatch(found["number"]):
        raise UsageError("--co2 {text}: not grams per kWh; write 380, or '0.38 kg/kWh'", text=text)
    grams = _number(found) * (1000 if (found["unit"] or "").lower() == "kg" else 1)
    if grams > _MOST_CO2_G:
        raise UsageError("--co2 {text}: no electricity causes that much; write grams per kWh, such as 380", text=text)
    return grams


def price_list(prices: Iterable[tuple[str, str]], co2: Iterable[tuple[str, str]] = ()) -> Mapping[str, Prices]:
    """The prices of each run or card, by its name. What is given under "" holds for all, unless it has its own.

    Empty if none is given.
    """
    found: dict[str, dict[str, float]] = {}
    currency: str | None = None
    for name, text in prices:
        amount, own, unit = read_price(text)
        if unit in found.setdefault(name, {}):
            raise _second(unit, text)
        found[name][unit] = amount
        if currency is not None and own not in (None, currency):
            raise UsageError("--price {text}: another price is in {currency}", text=text, currency=currency)
        currency = own or currency
    for name, text in co2:
        if "co2_g_per_kwh" in found.setdefault(name, {}):
            raise UsageError("--co2 {text}: is given twice", text=text)
        found[name]["co2_g_per_kwh"] = read_co2(text)
    shared = found.get("", {})
    return {name: Prices(**{**shared, **own}, currency=currency) for name, own in found.items()}


def prices_of(listed: Mapping[str, Prices], name: str = "") -> Prices | None:
    """The prices of a run or a card; None if none was given for it."""
    return listed.get(name, listed.get(""))


def shared_prices(prices: Iterable[str], co2: Iterable[str] = ()) -> Prices | None:
    """What holds for all runs; None if nothing is given."""
    return prices_of(price_list([("", text) for text in prices], [("", text) for text in co2]))


def _second(unit: Unit, text: str) -> UsageError:
    if unit == "kwh":
        return UsageError("--price {text}: there is already a price per kWh", text=text)
    return UsageError("--price {text}: there is already a price per GPU hour", text=text)


def _plain(text: str) -> str:
    """Without the spaces that web pages put between a number and its currency."""
    return " ".join(text.split())


def _number(found: re.Match[str]) -> float:
    return float(found["number"].replace(",", "."))
