"""What a run costs, if prices are given: the line in the answer, and its section."""

from __future__ import annotations

from nanopace.diagnosis.bill import Bill
from nanopace.diagnosis.result import Diagnosis
from nanopace.prices import Used
from nanopace.views.amounts import (
    co2_in_sentence,
    co2_in_table,
    energy_in_table,
    in_sentence,
    in_table,
    more_in_sentence,
)
from nanopace.views.document import Section, Table, Text
from nanopace.views.report import Report
from nanopace.wording.catalog import Words

Rows = list[tuple[Text, ...]]


def cost_line(diagnosis: Diagnosis, words: Words) -> str:
    """What the run has cost, and what it will cost; or why that is unknown. Empty without prices."""
    bill = diagnosis.bill
    if bill is None:
        return ""
    if bill.missing == "time":
        return words.text("Cost unknown: the log shows no times.")
    said = []
    if bill.so_far.money is not None:
        said.append(_money(bill, words))
    if bill.so_far.co2_kg is not None:
        said.append(_co2(bill, words))
    if bill.missing == "energy":
        said.append(_no_energy(diagnosis, words))
    return " ".join(said)


def _money(bill: Bill, words: Words) -> str:
    money, more = bill.so_far.money or 0.0, None if bill.ahead is None else bill.ahead.money
    cost = in_sentence(bill, money, words)
    if bill.missing == "energy" and bill.per_kwh is not None:
        cost = words.text("{cost} without electricity", cost=cost)
    if not more:
        return words.text("Cost: {cost}.", cost=cost)
    left, total = more_in_sentence(bill, more, words), in_sentence(bill, money + more, words)
    return words.text(
        "Cost so far: {cost}. Until max_iters: {more} more, {total} in all.", cost=cost, more=left, total=total
    )


def _co2(bill: Bill, words: Words) -> str:
    co2, more = bill.so_far.co2_kg or 0.0, None if bill.ahead is None else bill.ahead.co2_kg
    amount = co2_in_sentence(bill, co2, words)
    if not more:
        return words.text("CO₂: {amount}.", amount=amount)
    return words.text(
        "CO₂ so far: {amount}, {total} in all.", amount=amount, total=co2_in_sentence(bill, co2 + more, words)
    )


def _no_energy(diagnosis: Diagnosis, words: Words) -> str:
    device = diagnosis.facts.get("device")
    if device is not None and device.value == "cpu":
        return words.text("The energy is unknown: only GPUs report theirs, and this run had none.")
    if "gpu" in diagnosis.facts:
        return words.text(
            "The energy is unknown: the log has no power readings, and the table has no board power of this card."
        )
    return words.text("The energy is unknown: the log has no power readings; pass --gpu NAME for an upper bound.")


def cost(report: Report) -> Section:
    """Every amount, with what it consists of."""
    words, diagnosis, bill = report.words, report.diagnosis, report.diagnosis.bill
    heading = words.text("What it costs")
    if bill is None or bill.missing == "time":
        return Section("cost", heading, [])
    rows = [*_moneys(report, bill), *_energies(bill, words)]
    return Section("cost", heading, [Table(rows, "lrl"), *cost_notes(diagnosis, words)] if rows else [])


def _moneys(report: Report, bill: Bill) -> Rows:
    words, so_far, ahead = report.words, bill.so_far, bill.ahead
    if so_far.money is None:
        return []
    rows: Rows = [(words.text("so far"), in_table(bill, so_far.money, words), _quantities(bill, words))]
    if bill.per_1000 is not None:
        rows.append((words.text("1,000 more iterations"), in_table(bill, bill.per_1000.money, words), ""))
    if ahead is not None and ahead.money:
        note, mark = "", report.tilde("max_iters")
        if bill.ahead_low is not None and bill.ahead_high is not None:
            low, high = (words.money(each.money, bill.currency) for each in (bill.ahead_low, bill.ahead_high))
            note = words.text("80% interval: {low} to {high}", low=low, high=high) if low != high else ""
        rows.append((words.text("until max_iters"), _inferred(mark, in_table(bill, ahead.money, words)), note))
        rows.append((words.text("in all"), _inferred(mark, in_table(bill, so_far.money + ahead.money, words)), ""))
    return rows


def _inferred(mark: str, text: str) -> str:
    """A figure that depends on an inferred max_iters, marked once."""
    return text if "~" in text else mark + text


def _quantities(bill: Bill, words: Words) -> str:
    """What was paid for, and at what price."""
    used, parts = bill.so_far, []
    if bill.per_gpu_hour is not None and used.gpu_hours is not None:
        hours, price = words.significant(used.gpu_hours), words.money(bill.per_gpu_hour, bill.currency)
        parts.append(words.text("{hours} GPU hours at {price}", hours=hours, price=price))
    if bill.per_kwh is not None and used.kwh is not None:
        kwh, price = energy_in_table(bill, used.kwh, words), words.money(bill.per_kwh, bill.currency)
        parts.append(words.text("{energy} at {price}", energy=kwh, price=price))
    return " + ".join(parts)


def _energies(bill: Bill, words: Words) -> Rows:
    used = bill.so_far
    if used.kwh is None:
        return []
    power = words.value("mean_watts", bill.watts)
    if bill.energy_basis == "board_power":
        note = words.text("board power: {power}", power=power)
    else:
        note = words.text("{power} on average", power=power)
    rows: Rows = [(words.text("energy"), energy_in_table(bill, used.kwh, words), note)]
    if used.co2_kg is not None:
        note = words.text("{grams} g per kWh", grams=words.number(bill.co2_g_per_kwh))
        rows.append(("CO₂", co2_in_table(bill, used.co2_kg, words), note))
        if bill.ahead is not None and bill.ahead.co2_kg:
            in_all = co2_in_table(bill, used.co2_kg + bill.ahead.co2_kg, words)
            rows.append((words.text("CO₂ in all"), in_all, words.text("until max_iters")))
    return rows


def cost_notes(diagnosis: Diagnosis, words: Words) -> list[str]:
    """What the figures assume and leave out."""
    bill, notes = diagnosis.bill, []
    if bill is None or bill.so_far == Used():
        return []
    if bill.per_gpu:
        notes.append(words.text('Per GPU: the log does not say how many there were. If several, pass --gpu "2x 4090".'))
    if bill.energy_basis == "board_power":
        notes.append(words.text("Energy: at most, as if the card drew its board power all the time."))
    if bill.energy_basis is not None:
        notes.append(words.text("Energy is that of the GPUs, without the rest of the computer."))
    if bill.energy_basis == "measured" and bill.per_kwh is not None:
        notes.append(words.text("The parts of the wall clock share the energy by their time."))
    if diagnosis.wall.unknown_s is None:
        notes.append(words.text("Time that the log leaves out is not counted."))
    return notes
