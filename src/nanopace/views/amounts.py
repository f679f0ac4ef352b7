"""Amounts of a bill as text: in a table, in a column of parts, and in a sentence."""

from __future__ import annotations

from nanopace.diagnosis.bill import Bill
from nanopace.wording.catalog import UNKNOWN, Words
from nanopace.wording.numbers import FIXED, money_digits


def in_table(bill: Bill, money: float | None, words: Words) -> str:
    """Money, marked if it is only a bound."""
    return _marked(bill, bill.at_most, words.money(money, bill.currency))


def in_column(bill: Bill, money: float | None, words: Words) -> str:
    """A part of what the run has cost, with as many digits as the whole; empty if unknown."""
    whole = bill.so_far.money
    if money is None or whole is None:
        return ""
    digits = money_digits(whole, bill.currency)
    least = 10.0**-digits
    if 0 < money < least / 2:
        return f"<{words.money(least, bill.currency, digits)}"
    return _marked(bill, bill.at_most, words.money(money, bill.currency, digits))


def in_sentence(bill: Bill, money: float | None, words: Words) -> str:
    """Money in words."""
    return _told(bill, words.money(money, bill.currency), words, at_most=bill.at_most)


def more_in_sentence(bill: Bill, money: float | None, words: Words) -> str:
    """Money in words, beside a sum that says whether it is that of one GPU."""
    return _bounded(bill, words.money(money, bill.currency), words, at_most=bill.at_most)


def co2_in_table(bill: Bill, kg: float | None, words: Words) -> str:
    return _marked(bill, bill.energy_basis == "board_power", words.co2(kg))


def co2_in_sentence(bill: Bill, kg: float | None, words: Words) -> str:
    return _told(bill, words.co2(kg), words, at_most=bill.energy_basis == "board_power")


def energy_in_table(bill: Bill, kwh: float | None, words: Words) -> str:
    if kwh is None:
        return UNKNOWN
    return _marked(bill, bill.energy_basis == "board_power", words.value("energy_kwh", kwh))


def _marked(bill: Bill, at_most: bool, text: str) -> str:
    if text == UNKNOWN:
        return text
    return f"≤{FIXED}{_tilde(bill)}{text}" if at_most else f"{_tilde(bill)}{text}"


def _tilde(bill: Bill) -> str:
    """The mark of what depends on an inferred number of GPUs."""
    return "~" if bill.gpus_basis == "inferred" and bill.counts_gpus else ""


def _told(bill: Bill, text: str, words: Words, *, at_most: bool) -> str:
    bound = _bounded(bill, text, words, at_most=at_most)
    return words.text("{amount} per GPU", amount=bound) if bill.per_gpu else bound


def _bounded(bill: Bill, text: str, words: Words, *, at_most: bool) -> str:
    amount = f"{_tilde(bill)}{text}"
    return words.text("at most {time}", time=amount) if at_most else amount


def cost_name(bill: Bill, words: Words) -> str:
    """The name of a figure."""
    return words.text("cost per GPU") if bill.per_gpu else words.text("cost")
