"""What compared runs cost, if prices are given: rows of their tables, and a sentence of the verdict."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nanopace.diagnosis.bill import Bill
from nanopace.diagnosis.comparison import Comparison
from nanopace.diagnosis.result import Diagnosis
from nanopace.views.amounts import co2_in_table, energy_in_table, in_sentence, in_table
from nanopace.views.cost import cost_line, cost_notes
from nanopace.wording.catalog import UNKNOWN, Words

Row = tuple[str, str, str, str]  # name, both runs, and b over a


def money(run: Diagnosis, words: Words) -> str:
    """What a run has cost."""
    return UNKNOWN if run.bill is None else in_table(run.bill, run.bill.so_far.money, words)


def bill_rows(a: Diagnosis, b: Diagnosis, words: Words) -> list[Row]:
    """What both runs have cost so far, as far as it is known of one."""
    figures: tuple[tuple[str, Callable[[Bill], float | None], Callable[[Bill, float | None, Words], str]], ...] = (
        (words.text("cost"), lambda bill: bill.so_far.money, in_table),
        (words.text("energy"), lambda bill: bill.so_far.kwh, energy_in_table),
        ("CO₂", lambda bill: bill.so_far.co2_kg, co2_in_table),
    )
    rows = []
    for name, of, shown in figures:
        known = [None if run.bill is None else of(run.bill) for run in (a, b)]
        if known != [None, None]:
            texts = [
                UNKNOWN if run.bill is None else shown(run.bill, amount, words)
                for run, amount in zip((a, b), known, strict=True)
            ]
            bounded = any(text.startswith("≤") for text in texts)  # the ratio of two bounds bounds nothing
            ratio = words.factor(known[1] / known[0]) if known[0] and known[1] and not bounded else ""
            rows.append((name, texts[0], texts[1], ratio))
    return rows


def arrival_cost(found: Comparison, words: Words) -> list[Row]:
    """What it cost to reach the same loss; nothing if that is unknown."""
    costs, a, b = found.arrival_money, found.a.bill, found.b.bill
    if costs is None or a is None or b is None or costs.a is None or costs.b is None:
        return []
    ratio = "" if costs.ratio is None else words.factor(costs.ratio)
    return [(words.text("cost"), in_table(a, costs.a, words), in_table(b, costs.b, words), ratio)]


def cost_verdict(found: Comparison, words: Words, letters: tuple[str, str] = ("A", "B")) -> list[str]:
    """The cost of reaching the same loss; else of the runs, or why that is unknown."""
    a, b, costs = found.a.bill, found.b.bill, found.arrival_money
    if a is None or b is None:
        return []
    values = {"a": letters[0], "b": letters[1]}
    if costs is not None and costs.a and costs.b:
        values |= {"cost_a": in_sentence(a, costs.a, words), "cost_b": in_sentence(b, costs.b, words)}
        values["loss"] = words.number(found.arrival.target if found.arrival is not None else None, 4)
        return [words.text("To reach {loss}, {a} costs {cost_a} and {b} {cost_b}.", **values)]
    if a.so_far.money is not None and b.so_far.money is not None:
        values |= {"cost_a": in_sentence(a, a.so_far.money, words), "cost_b": in_sentence(b, b.so_far.money, words)}
        return [words.text("{a} has cost {cost_a}, {b} {cost_b}.", **values)]
    return [
        f"{letter}: {cost_line(run, words)}"
        for letter, run in zip(letters, (found.a, found.b), strict=True)
        if run.bill is not None and run.bill.missing is not None
    ]


def cost_remarks(runs: Sequence[Diagnosis], words: Words) -> list[str]:
    """What the costs of these runs assume and leave out, each once."""
    return list(dict.fromkeys(note for run in runs for note in cost_notes(run, words)))
