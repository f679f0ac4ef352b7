"""Prices as people write them: read exactly, or refused in one line that names the flag."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanopace.errors import UsageError
from nanopace.price_text import SIGNS, price_list, prices_of, read_co2, read_price
from nanopace.prices import Prices, Used

amounts = st.decimals(min_value=0, max_value=999_999, places=3, allow_nan=False).map(str)
currencies = st.sampled_from(["", *SIGNS, "EUR", "USD", "CHF", "JPY", "eur"])
units = st.sampled_from(
    ["", "/h", "/ h", "/hr", "/hour", "/GPU-h", "/GPU h", " per hour", "/kWh", " / kwh", " per kWh"]
)
spaces = st.sampled_from(["", " ", "\u00a0", "\u202f"])


@given(amounts, currencies, units, spaces, st.booleans(), st.booleans())
def test_a_price_is_what_was_written(
    amount: str, currency: str, unit: str, space: str, first: bool, comma: bool
) -> None:
    if comma and (amount.startswith("0.") or len(amount.partition(".")[0]) > 3):  # else 1,234 may be a thousand
        typed = amount.replace(".", ",")
    else:
        typed = amount
    text = f"{currency}{space}{typed}{unit}" if first else f"{typed}{space}{currency}{unit}"
    assert read_price(text) == (float(amount), currency.upper() or None, "kwh" if "wh" in unit.lower() else "gpu_hour")


@given(st.text(max_size=20))
def test_anything_else_is_refused_or_a_finite_price(text: str) -> None:
    for read, flag in ((lambda each: read_price(each)[0], "--price"), (read_co2, "--co2")):
        amount, said = 0.0, f"{flag} {text}: "
        try:
            amount = read(text)
        except UsageError as error:
            said = str(error)
        assert said.startswith(f"{flag} {text}: ")
        assert 0 <= amount < math.inf


@pytest.mark.parametrize(
    "text",
    [
        *("", "-1", "-0.35", "nan", "inf", "1e3", "cheap", "0.35/day", "0.35/MWh", "0.35/", "EUR", "$0.35 USD"),
        *("1,234", "1,234.50", "0.35.1", "0.3 5", "0.35 EURO", "0.35 EUR/h/kWh", "٣", "１", "0.35 ct/kWh"),
        *("9999999999", "0.35 h", "0.35 kW"),
    ],
)
def test_what_is_no_price(text: str) -> None:
    with pytest.raises(UsageError, match=r"^--price .*: not a price; write 0\.35, "):
        read_price(text)


@pytest.mark.parametrize("text", ["0.35 day", "0.35 kWh", "ERU 0.35", "0.35 GPU/h"])
def test_three_letters_need_not_be_a_currency(text: str) -> None:
    with pytest.raises(UsageError, match=r"is not a currency$"):
        read_price(text)


def test_a_comma_may_be_a_decimal_point() -> None:
    assert read_price("0,35 €")[0] == 0.35
    assert read_price("0,350")[0] == 0.35
    assert read_price("2,5")[0] == 2.5
    assert read_price(".5")[0] == 0.5


@pytest.mark.parametrize(
    ("text", "grams"),
    [("380", 380), ("380g/kWh", 380), ("0.38 kg/kWh", 380), ("0,38 kg per kWh", 380), ("0", 0), ("380 G/KWH", 380)],
)
def test_co2_is_in_grams(text: str, grams: float) -> None:
    assert read_co2(text) == pytest.approx(grams)


@pytest.mark.parametrize("text", ["", "-380", "nan", "much", "380 t/kWh", "380/MWh", "1,234"])
def test_what_is_no_co2(text: str) -> None:
    with pytest.raises(UsageError, match=r"^--co2 .*: not grams per kWh"):
        read_co2(text)


def test_a_slip_of_units_is_noticed() -> None:
    assert read_co2("3000") == 3000
    for text in ("3001", "380 kg/kWh", "380000"):
        with pytest.raises(UsageError, match="no electricity causes that much"):
            read_co2(text)


def test_one_price_of_each_kind() -> None:
    both = price_list([("", "0.35 EUR"), ("", "0.30/kWh")], [("", "380")])
    assert both == {"": Prices(0.35, 0.30, "EUR", 380.0)}
    assert price_list([("", "0.30/kWh"), ("", "0.35 EUR")]) == {"": Prices(0.35, 0.30, "EUR")}
    assert price_list([]) == {}
    assert price_list([], [("", "380")]) == {"": Prices(co2_g_per_kwh=380.0)}


@pytest.mark.parametrize(
    ("prices", "co2", "said"),
    [
        (["0.35", "0.40/h"], [], "--price 0.40/h: there is already a price per GPU hour"),
        (["0.3/kWh", "0.4/kWh"], [], "--price 0.4/kWh: there is already a price per kWh"),
        (["0.35 EUR", "$0.30/kWh"], [], "--price $0.30/kWh: another price is in EUR"),
        ([], ["380", "400"], "--co2 400: is given twice"),
    ],
)
def test_two_of_a_kind_are_a_slip(prices: list[str], co2: list[str], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        price_list([("", text) for text in prices], [("", text) for text in co2])
    assert str(caught.value) == said


def test_what_is_given_for_all_holds_unless_one_has_its_own() -> None:
    listed = price_list([("", "0.35"), ("B", "2 EUR"), ("", "0.3/kWh")], [("A", "50")])
    assert prices_of(listed, "A") == Prices(0.35, 0.3, "EUR", 50.0)
    assert prices_of(listed, "B") == Prices(2.0, 0.3, "EUR")
    assert prices_of(listed, "C") == Prices(0.35, 0.3, "EUR")
    assert prices_of(price_list([("B", "2")]), "A") is None
    with pytest.raises(UsageError, match="another price is in EUR"):
        price_list([("A", "1 EUR"), ("B", "1 USD")])


def test_only_what_is_known_is_paid() -> None:
    both = Prices(0.5, 0.25, "EUR", 400.0)
    assert both.used(2.0, 4.0) == Used(2.0, 4.0, 1.6, 2.0)
    assert both.used(2.0, None) == Used(2.0, None, None, 1.0)
    assert both.used(None, None).money is None
    assert Prices(0.5).used(2.0, 4.0) == Used(2.0, 4.0, None, 1.0)
    assert Prices(0.0).used(2.0, None).money == 0.0
    assert Prices(co2_g_per_kwh=400.0).used(2.0, 4.0) == Used(2.0, 4.0, 1.6, None)
