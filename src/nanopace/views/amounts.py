"""Amounts of a bill as text: in a table, in a column of parts, and in a sentence."""

from __future__ import annotations

from nanopace.diagnosis.bill import Bill
from nanopace.wording.catalog import UNKNOWN, Words
from nanopace.wording.numbers import FIXED, money_digits


def in_table(bill: Bill, money: float | None, words: Words) -> str:
    """Money, marked if it is only a bound."""
    return _marked(bill.at_most, words.money(money, bill.currency))


def in_column(bill: Bill, money: float | None, words: Words) -> str:
    """A part of what the run has cost, with as many digits as the whole; empty if unknown."""
    whole = bill.so_far.money
    if money is None or whole is None:
        return ""
    digits = money_digits(whole, bill.currency)
    least = 10.0**-digits
    if 0 < money < least / 2:
        return f"<{words.money(least, bill.currency, digits)}"
    return _marked(bill.at_most, words.money(money, bill.currency, digits))


def in_sentence(bill: Bill, money: float | None, words: Words) -> str:
    """Money in words."""
    return _told(bill.at_most, words.money(money, bill.currency), words)


def co2_in_table(bill: Bill, kg: float | None, words: Words) -> str:
    return _marked(bill.energy_basis == "board_power", words.co2(kg))


def co2_in_sentence(bill: Bill, kg: float | None, words: Words) -> str:
    return _told(bill.energy_basis == "board_power", words.co2(kg), words)


def energy_in_table(bill: Bill, kwh: float | None, words: Words) -> str:
    if kwh is None:
        return UNKNOWN
    return _marked(bill.energy_basis == "board_power", words.value("energy_kwh", kwh))


def _marked(at_most: bool, text: str) -> str:
    return f"≤{FIXED}{text}" if at_most and text != UNKNOWN else text


def _told(at_most: bool, text: str, words: Words) -> str:
    return words.text("at most {time}", time=text) if at_most else text
