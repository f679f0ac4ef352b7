"""What a run costs: GPU hours and energy times prices, and nothing where one of them is unknown."""

from __future__ import annotations

from pathlib import Path

import pytest

from nanopace import open_run
from nanopace.diagnosis.bill import Bill
from nanopace.diagnosis.billing import PHASES, billed
from nanopace.diagnosis.compare.compare import compare
from nanopace.diagnosis.diagnose import diagnose
from nanopace.diagnosis.result import Diagnosis
from nanopace.prices import Prices, Used
from nanopace.record import field_names, replace
from nanopace.run import Fact, GpuUse, Row, Rows, Run
from nanopace.views.report import seconds_by_phase

from .synthetic import nanogpt_run

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def run(facts: dict[str, Fact] | None = None, *, suspended_s: float = 0.0, gpu_use: GpuUse | None = None) -> Diagnosis:
    """An hour on the wall clock: 3300 s of training, 200 s of evaluation, 100 s more."""
    found = diagnose(nanogpt_run(2000))
    parts = {"training": 3300.0 - suspended_s, "evaluation": 200.0, "checkpoint": 100.0, "suspended": suspended_s}
    wall = replace(found.wall, total_s=3600.0, **{f"{phase}_s": parts.get(phase, 0.0) for phase in PHASES})
    known = {name: fact for name, fact in found.facts.items() if name not in ("gpu", "gpu_count", "world_size")}
    return replace(found, wall=wall, facts={**known, **(facts or {})}, gpu_use=gpu_use)


def bill_of(diagnosis: Diagnosis, prices: Prices) -> Bill:
    found = billed(diagnosis, prices).bill
    assert found is not None
    return found


def measured(kwh: float, watts: float | None = None) -> GpuUse:
    return GpuUse(samples=10, energy_kwh=kwh, watts=watts)


def test_nothing_changes_without_prices() -> None:
    found = run()
    assert billed(found, None) is found
    assert found.bill is None


def test_an_hour_of_one_gpu() -> None:
    found = bill_of(run(), Prices(0.36, currency="EUR"))
    assert found.so_far == Used(1.0, None, None, pytest.approx(0.36))
    assert (found.gpus, found.gpus_basis, found.currency) == (1, "assumed", "EUR")
    assert {each.phase: each.used.money for each in found.phases} == pytest.approx(
        {"training": 0.33, "evaluation": 0.02, "checkpoint": 0.01}
    )
    assert found.missing is None
    assert (found.watts, found.energy_basis) == (None, None)  # nobody asked


@pytest.mark.parametrize(
    ("facts", "gpus", "basis"),
    [
        ({"gpu_count": Fact(8, "log"), "world_size": Fact(4, "log")}, 8, "known"),
        ({"world_size": Fact(4, "log")}, 4, "known"),
        ({"gpu_count": Fact(8, "inferred", "trainer")}, 8, "inferred"),
        ({"gpu": Fact("4070", "flag")}, 1, "known"),  # --gpu "2x 4070" would be two
        ({"gpu": Fact("4070", "log")}, 1, "assumed"),
        ({"device": Fact("cpu", "log")}, 1, "known"),
        ({"gpu_count": Fact(0, "log")}, 1, "assumed"),
    ],
)
def test_every_gpu_is_paid(facts: dict[str, Fact], gpus: int, basis: str) -> None:
    found = bill_of(run(facts), Prices(0.5))
    assert (found.gpus, found.gpus_basis) == (gpus, basis)
    assert found.so_far.money == pytest.approx(0.5 * gpus)


def test_measured_energy_is_what_counts() -> None:
    found = bill_of(run({"gpu": Fact("4070", "log")}, gpu_use=measured(0.18)), Prices(kwh=0.5, co2_g_per_kwh=400.0))
    assert found.energy_basis == "measured"
    assert not found.at_most
    assert found.watts == pytest.approx(180.0)
    assert found.so_far == Used(1.0, pytest.approx(0.18), pytest.approx(0.072), pytest.approx(0.09))


def test_a_suspended_machine_is_paid_for_but_draws_no_power() -> None:
    found = bill_of(run(suspended_s=1800.0, gpu_use=measured(0.1)), Prices(1.0, 1.0))
    assert found.watts == pytest.approx(200.0)  # over the half hour that it was awake
    assert found.so_far.money == pytest.approx(1.0 + 0.1)
    asleep = next(each.used for each in found.phases if each.phase == "suspended")
    assert (asleep.gpu_hours, asleep.kwh, asleep.money) == (0.5, 0.0, 0.5)
    assert sum(each.used.money or 0.0 for each in found.phases) == pytest.approx(found.so_far.money)


def test_the_board_power_is_a_bound_and_says_so() -> None:
    found = bill_of(run({"gpu": Fact("4070", "flag"), "gpu_count": Fact(2, "flag")}), Prices(kwh=0.5))
    assert found.energy_basis == "board_power"
    assert found.at_most
    assert found.watts == 400.0
    assert found.so_far.money == pytest.approx(0.2)
    assert not bill_of(run({"gpu": Fact("4070", "flag")}), Prices(0.5, co2_g_per_kwh=1.0)).at_most  # only the CO2


def test_of_cards_that_share_a_name_the_thirstiest() -> None:
    found = bill_of(run({"gpu": Fact("A100", "log")}), Prices(kwh=1.0))
    assert found.watts == 400.0  # SXM; PCIe draws less


@pytest.mark.parametrize(
    "facts",
    [
        {},
        {"gpu": Fact("no such card", "log")},
        {"gpu": Fact("4070", "log"), "device": Fact("cpu", "log")},
    ],
)
def test_energy_that_nothing_shows_is_left_out(facts: dict[str, Fact]) -> None:
    found = bill_of(run(facts), Prices(0.5, 0.3, co2_g_per_kwh=400.0))
    assert found.missing == "energy"
    assert found.so_far == Used(1.0, None, None, 0.5)
    assert bill_of(run(facts), Prices(kwh=0.3)).so_far.money is None


def test_the_energy_of_several_cards() -> None:
    four = {"gpu": Fact("4070", "log"), "gpu_count": Fact(4, "log")}
    measured_all = bill_of(run(four, gpu_use=measured(0.6, watts=160.0)), Prices(kwh=1.0))
    assert (measured_all.energy_basis, measured_all.watts) == ("measured", pytest.approx(600.0))
    unknown = bill_of(run(four), Prices(kwh=1.0))
    assert (unknown.energy_basis, unknown.watts) == ("board_power", 800.0)


def test_without_times_there_is_no_cost() -> None:
    rows = Rows([Row(iteration, 0.0, 4.0) for iteration in range(0, 100, 10)])
    untimed = diagnose(Run(name="a.log", format="nanogpt", rows=Rows(), untimed_rows=rows))
    found = bill_of(untimed, Prices(0.5, 0.3))
    assert found.missing == "time"
    assert found.so_far == Used()
    assert found.phases == ()
    assert found.ahead is None


def test_what_is_left_costs_as_its_time() -> None:
    found = run()
    ahead = replace(found.ahead, seconds_per_1000=360.0, eta_s=7200.0, eta_low_s=3600.0, eta_high_s=10800.0)
    bill = bill_of(replace(found, ahead=ahead), Prices(0.5))
    amounts = [bill.per_1000, bill.ahead, bill.ahead_low, bill.ahead_high]
    assert [each.money for each in amounts if each is not None] == pytest.approx([0.05, 1.0, 0.5, 1.5])
    assert bill.money_of(1800.0) == pytest.approx(0.25)
    assert bill.money_of(None) is None


def test_the_phases_are_those_of_the_report() -> None:
    found = run()
    assert list(seconds_by_phase(found.wall)) == list(PHASES)
    others = {"total_s", "overhead_share", "goodput", "measured"}
    assert {name.removesuffix("_s") for name in set(field_names(found.wall)) - others} == set(PHASES)


def test_the_phases_of_a_log_add_up() -> None:
    found = diagnose(nanogpt_run(4000, stalls={1000: 60_000.0}))
    bill = bill_of(found, Prices(0.35, 0.3, co2_g_per_kwh=380.0))
    assert sum(each.used.money or 0.0 for each in bill.phases) == pytest.approx(bill.so_far.money, rel=1e-6)


def test_the_cost_to_the_same_loss() -> None:
    wide, narrow = (diagnose(open_run(EXAMPLES / f"{name}.log")) for name in ("wide", "narrow"))
    found = compare(billed(wide, Prices(1.0)), billed(narrow, Prices(2.0)))
    assert found.arrival is not None
    assert found.arrival.a.seconds > 3600
    assert found.arrival_money is not None
    assert found.arrival_money.a == pytest.approx(found.arrival.a.seconds / 3600)
    assert found.arrival_money.b == pytest.approx(2 * found.arrival.b.seconds / 3600)
    assert found.arrival_money.ratio == pytest.approx(2 * (found.arrival.ratio or 0.0))
    assert compare(wide, billed(narrow, Prices(2.0))).arrival_money is None
    assert compare(wide, narrow).arrival_money is None
