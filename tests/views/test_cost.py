"""What a run costs, where a reader looks for it: in the answer, beside the time, and in its own section."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from nanopace import diagnose, open_run, render
from nanopace.diagnosis.bill import Bill
from nanopace.diagnosis.billing import billed
from nanopace.diagnosis.result import Diagnosis
from nanopace.prices import Prices
from nanopace.record import replace
from nanopace.run import Fact, GpuUse, Row, Rows, Run
from nanopace.views.amounts import in_column
from nanopace.views.cost import cost_line
from nanopace.views.key_figures import key_figures
from nanopace.views.report import Report
from nanopace.wording.catalog import words
from nanopace.wording.numbers import LANGUAGES

from .cases import case_1, printed

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
EUROS = Prices(0.36, currency="EUR")
BOTH = Prices(0.36, 0.30, "€", 380.0)


def run(eta_s: float | None = None, gpu: str | None = None, kwh: float | None = None) -> Diagnosis:
    """The first case, in one hour."""
    found = case_1()
    factor = 3600.0 / (found.wall.total_s or 1.0)
    names = [field.name for field in dataclasses.fields(found.wall) if field.name.endswith("_s")]
    wall = replace(found.wall, **{name: (getattr(found.wall, name) or 0.0) * factor for name in names})
    ahead = replace(found.ahead, eta_s=eta_s, eta_low_s=None, eta_high_s=None)
    facts = {**found.facts, "gpu_count": Fact(1, "log"), **({} if gpu is None else {"gpu": Fact(gpu, "flag")})}
    use = None if kwh is None else GpuUse(samples=9, energy_kwh=kwh)
    return replace(found, wall=wall, ahead=ahead, facts=facts, gpu_use=use)


def of_example() -> Diagnosis:
    return diagnose(open_run(EXAMPLES / "slow-rows.log"))


def said(diagnosis: Diagnosis, lang: str = "en", width: int = 80) -> str:
    return printed(diagnosis, lang=lang, width=width).replace("\u00a0", " ")


def line(diagnosis: Diagnosis, lang: str = "en") -> str:
    return cost_line(diagnosis, words(lang)).replace("\u00a0", " ")


def test_the_answer_has_the_cost() -> None:
    assert line(billed(run(), EUROS)) == "Cost: EUR 0.36."
    assert (
        line(billed(run(eta_s=7200.0), EUROS))
        == "Cost so far: EUR 0.36. Until max_iters: EUR 0.72 more, EUR 1.08 in all."
    )
    assert line(billed(run(), EUROS), "de") == "Kosten: 0,36 EUR."
    assert line(run()) == ""


def test_energy_and_co2_are_in_it_too() -> None:
    assert line(billed(run(kwh=0.2), BOTH)) == "Cost: €0.42. CO₂: 76.0 g."
    assert line(billed(run(eta_s=3600.0, kwh=0.2), BOTH)).endswith("€0.84 in all. CO₂ so far: 76.0 g, 152 g in all.")
    assert line(billed(run(kwh=0.2), Prices(co2_g_per_kwh=380.0))) == "CO₂: 76.0 g."


def test_a_bound_is_called_one() -> None:
    bound = billed(run(eta_s=3600.0, gpu="4070"), BOTH)
    assert line(bound).startswith(
        "Cost so far: at most €0.42. Until max_iters: at most €0.42 more, at most €0.84 in all."
    )
    report = said(bound)
    assert "≤ €0.42 1.00 GPU hours at €0.36 + ≤ 0.200 kWh at €0.30" in " ".join(report.split())
    assert "board power: 200 W" in report
    assert "Energy: at most, as if the card drew its board power all the time." in report


def test_unknown_stays_unknown_in_one_line() -> None:
    untimed = Run(
        name="a.log", format="nanogpt", rows=Rows(), untimed_rows=Rows([Row(n, 0.0, 4.0) for n in range(0, 90, 10)])
    )
    without_times = billed(diagnose(untimed), BOTH)
    assert line(without_times) == "Cost unknown: the log shows no times."
    report = said(without_times)
    assert report.count("Cost unknown") == 1
    assert "What it costs" not in report
    no_energy = "The energy is unknown: the log has no power readings"
    assert (
        line(billed(run(), BOTH))
        == f"Cost: €0.36 without electricity. {no_energy}; pass --gpu NAME for an upper bound."
    )
    assert line(billed(run(gpu="no such card"), Prices(kwh=0.3))) == (
        f"{no_energy}, and the table has no board power of this card."
    )
    on_cpu = run()
    on_cpu = replace(on_cpu, facts={**on_cpu.facts, "device": Fact("cpu", "log")})
    assert line(billed(on_cpu, Prices(kwh=0.3))).startswith("The energy is unknown: only GPUs report theirs")


def test_every_phase_has_its_cost() -> None:
    report = said(billed(run(), Prices(36.0, currency="$")))
    wall = report[report.index("Where the time went") : report.index("What it costs")]
    costs = [float(row.split("$")[1].split()[0]) for row in wall.splitlines() if "$" in row]
    assert len(costs) >= 4
    assert sum(costs) == pytest.approx(36.0, abs=0.03)
    assert "share" in wall.splitlines()[1]
    assert "cost" in wall.splitlines()[1]
    assert max(map(len, wall.splitlines())) <= 80


def test_a_part_of_a_cent_is_less_than_a_cent() -> None:
    bill = billed(run(), EUROS).bill
    assert bill is not None
    english = words("en")
    assert in_column(bill, 0.004, english) == "<EUR\u00a00.01"
    assert in_column(bill, 0.005, english) == "EUR\u00a00.01"
    assert in_column(bill, 0.0, english) == "EUR\u00a00.00"
    assert in_column(bill, None, english) == ""


def test_advice_saves_money() -> None:
    found = of_example()
    assert "Saves 2 min 46 s (4.6%)." in render(found)
    priced = " ".join(render(billed(found, Prices(36.0, currency="$"))).split())
    assert "Saves 2 min 46 s (4.6%) and $1.66 per GPU." in priced.replace("\u00a0", " ")


def of_unknown_gpus(**known: Any) -> Diagnosis:
    found = run(**known)
    return replace(found, facts={name: fact for name, fact in found.facts.items() if name != "gpu_count"})


def test_without_the_number_of_gpus_it_is_the_cost_of_one() -> None:
    found = billed(of_unknown_gpus(), EUROS)
    assert line(found) == "Cost: EUR 0.36 per GPU."
    assert "Per GPU: the log does not say how many there were." in said(found)
    assert "cost per GPU" in {figure.name for figure in key_figures(Report(found, words("en")))}
    in_log = replace(of_unknown_gpus(), facts={**of_unknown_gpus().facts, "gpu": Fact("4070", "log")})
    energy = "Cost: at most €0.060 per GPU. CO₂: at most 76.0 g per GPU."
    assert line(billed(in_log, Prices(kwh=0.3, currency="€", co2_g_per_kwh=380.0))) == energy


def test_what_depends_on_an_inferred_number_of_gpus_is_marked() -> None:
    found = run(eta_s=3600.0)
    facts = {"gpu_count": Fact(8, "inferred", "trainer"), "max_iters": Fact(9, "inferred", "trainer")}
    inferred = billed(replace(found, facts={**found.facts, **facts}), EUROS)
    assert line(inferred).startswith("Cost so far: ~EUR 2.88. Until max_iters: ~EUR 2.88 more, ~EUR 5.76 in all.")
    assert section(inferred)[-1] == "in all ~EUR 5.76"
    figure = next(each for each in key_figures(Report(inferred, words("en"))) if each.name == "cost")
    assert (figure.value, figure.more) == ("~EUR\u00a02.88", "~EUR\u00a05.76 in all")
    measured = replace(inferred, bill=None, gpu_use=GpuUse(samples=9, energy_kwh=0.2))
    assert "~" not in line(billed(measured, Prices(kwh=0.3)))


def test_the_number_of_gpus_may_not_matter() -> None:
    for found in (of_unknown_gpus(gpu="4070"), run()):  # --gpu "2x 4070" would be two
        assert "er GPU" not in line(billed(found, EUROS))
        assert "Per GPU" not in said(billed(found, EUROS))
    measured = billed(of_unknown_gpus(kwh=0.2), Prices(kwh=0.3))  # by the sensors of all
    assert "er GPU" not in line(measured)
    assert "Per GPU" not in said(measured)


def test_the_page_has_the_figure_and_the_section() -> None:
    found = billed(run(eta_s=3600.0), EUROS)
    figure = next(each for each in key_figures(Report(found, words("en"))) if each.name == "cost")
    assert figure.value == "EUR\u00a00.36"
    assert figure.more == "EUR\u00a00.72 in all"
    page = render(billed(of_example(), EUROS), format="html").replace("\u00a0", " ")
    assert 'id="run-0-cost"' in page
    assert "Cost: EUR 0.36 per GPU." in page


@pytest.mark.parametrize("lang", LANGUAGES)
def test_nothing_changes_without_a_price(lang: str) -> None:
    for sign in ("CO₂", "EUR", words(lang).text("What it costs"), words(lang).text("cost")):
        assert f" {sign} " not in f" {' '.join(said(run(), lang).split())} "
    page = render(of_example(), format="html", lang=lang)
    assert 'id="run-0-cost"' not in page
    assert "CO₂" not in page


@pytest.mark.parametrize("lang", LANGUAGES)
def test_every_language_says_it_in_full(lang: str) -> None:
    report = said(billed(run(eta_s=3600.0, kwh=0.2), BOTH), lang)
    assert "{" not in report
    assert ("€0.42" if lang == "en" else "0,42 €") in report
    assert "CO₂" in report
    if lang != "en":
        assert "in all" not in report
        assert "GPU hours" not in report


def test_a_narrow_terminal_keeps_the_costs() -> None:
    report = said(billed(run(kwh=0.2), BOTH), width=50)
    assert max(map(len, report.splitlines())) <= 50
    assert "€0.42" in report


def test_a_bill_knows_its_prices() -> None:
    bill = billed(run(), BOTH).bill
    assert isinstance(bill, Bill)
    assert bill.prices == BOTH


def section(diagnosis: Diagnosis) -> list[str]:
    """The lines of the section, without their spaces."""
    told = said(diagnosis).partition("What it costs\n")[2].partition("\n\n")[0]
    return [" ".join(row.split()) for row in told.splitlines()]


def with_time_left(low_s: float, high_s: float, **facts: Fact) -> Diagnosis:
    found = run(kwh=0.2)
    ahead = replace(found.ahead, seconds_per_1000=360.0, eta_s=3600.0, eta_low_s=low_s, eta_high_s=high_s)
    return replace(found, ahead=ahead, facts={**found.facts, "gpu_count": Fact(1, "log"), **facts})


def test_the_section_in_full() -> None:
    assert section(billed(with_time_left(3000.0, 4500.0), BOTH)) == [
        "so far €0.42 1.00 GPU hours at €0.36 + 0.200 kWh at €0.30",
        "1,000 more iterations €0.042",
        "until max_iters €0.42 80% interval: €0.35 to €0.52",
        "in all €0.84",
        "energy 0.200 kWh 200 W on average",
        "CO₂ 76.0 g 380 g per kWh",
        "CO₂ in all 152 g until max_iters",
        "Energy is that of the GPUs, without the rest of the computer.",
        "The parts of the wall clock share the energy by their time.",
    ]


def test_the_section_leaves_out_what_is_not_asked_for() -> None:
    assert section(billed(with_time_left(3600.0, 3601.0, max_iters=Fact(9, "inferred")), EUROS)) == [
        "so far EUR 0.36 1.00 GPU hours at EUR 0.36",
        "1,000 more iterations EUR 0.036",
        "until max_iters ~EUR 0.36",
        "in all ~EUR 0.72",
    ]
    assert section(billed(run(gpu="4070", kwh=0.2), Prices(co2_g_per_kwh=380.0))) == [
        "energy 0.200 kWh 200 W on average",
        "CO₂ 76.0 g 380 g per kWh",
        "Energy is that of the GPUs, without the rest of the computer.",
    ]
    found = run(gpu="4070")
    no_pace = replace(found, ahead=replace(found.ahead, seconds_per_1000=None))
    assert section(billed(no_pace, EUROS)) == ["so far EUR 0.36 1.00 GPU hours at EUR 0.36"]
    unclear = replace(no_pace, wall=replace(no_pace.wall, unknown_s=None))
    assert section(billed(unclear, EUROS))[1:] == ["Time that the log leaves out is not counted."]


def test_what_is_free_costs_nothing() -> None:
    assert line(billed(run(gpu="4070"), Prices(0.0, currency="EUR"))) == "Cost: EUR 0.00."
