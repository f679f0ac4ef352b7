"""What the card's sensors measured during a run: medians, extremes, shares, and the energy used."""

from __future__ import annotations

import math

import pytest

from nanopace.ledger import EndEvent, Event, GpuEvent, NoteEvent, ResumeEvent
from nanopace.run import GpuUse

from ..ledgers import run_event, runs_of, steps


def gpu(at_s: float, watts: float | None = 360.0, **values: object) -> GpuEvent:
    return GpuEvent(0, watts=watts, at_ms=1000 * at_s, **values)  # type: ignore[arg-type]


def test_medians_extremes_and_shares_of_the_samples() -> None:
    samples = [
        gpu(1, 300.0, sm_mhz=1900, memory_mhz=3000, celsius=60, utilization=0.5, memory_used_gb=1.0),
        gpu(2, 500.0, sm_mhz=1700, celsius=80, utilization=0.9, memory_used_gb=9.0, throttle="power_cap,thermal"),
        gpu(3, 400.0, sm_mhz=1800, celsius=70, utilization=1.0, memory_used_gb=5.0, throttle=" power_cap, "),
        gpu(4, None, celsius=math.nan),
    ]
    (run,) = runs_of([run_event(), *steps(0, 3), *samples, EndEvent("finished", 5000.0, energy_kwh=0.25)])
    assert run.gpu_use == GpuUse(
        samples=4,
        sm_mhz=1800,
        memory_mhz=3000,
        watts=400.0,
        celsius=80,
        utilization=0.9,
        memory_used_gb=9.0,
        throttled={"power_cap": 0.5, "thermal": 0.25},
        energy_kwh=0.25,
    )


def test_a_card_that_waits_for_a_compiler_or_a_disk_says_nothing_about_training() -> None:
    waiting = [gpu(at, 90.0, sm_mhz=1980) for at in range(8)]
    at_work = [gpu(at, 695.0, sm_mhz=1545, throttle="thermal, power_cap") for at in range(10, 13)]
    evaluating = gpu(14, 400.0, sm_mhz=1980)
    first = [run_event(), *waiting, *steps(0, 2), *at_work, *steps(2, 3), *waiting]
    resumed = [run_event(), ResumeEvent(3), *waiting, *steps(3, 5), *at_work, evaluating, *steps(5, 6), *waiting]
    (run,) = runs_of([*first, *resumed])
    use = run.gpu_use
    assert use is not None
    assert (use.samples, use.training_samples, use.at_power_limit) == (39, 7, 6)
    assert (use.limited_mhz, use.limited_watts) == (1545, 695.0)


def test_a_run_that_asked_no_sensor_knows_nothing_of_them() -> None:
    (run,) = runs_of([run_event(), NoteEvent("no card"), *steps(0, 3), EndEvent("finished", 5000.0)])
    assert run.gpu_use is None


def test_the_energy_of_processes_adds_up_and_a_killed_one_has_that_of_its_samples() -> None:
    events = [
        run_event(),
        *steps(0, 3),
        *(gpu(at, 360.0) for at in range(0, 101, 5)),  # 36 kJ are 0.01 kWh
        run_event(),
        ResumeEvent(3),
        *steps(3, 5),
        gpu(5, 360.0),
        EndEvent("finished", 9000.0, energy_kwh=0.5),
    ]
    (run,) = runs_of(events)
    assert run.gpu_use is not None
    assert run.gpu_use.energy_kwh == pytest.approx(0.51)
    assert run.gpu_use.samples == 22


@pytest.mark.parametrize("samples", [[], [gpu(5)], [gpu(5, None), gpu(10, None)], [gpu(5, math.inf), gpu(9)]])
def test_energy_that_one_process_did_not_tell_is_unknown(samples: list[Event]) -> None:
    first = [run_event(), *steps(0, 3), EndEvent("interrupted", 9000.0, energy_kwh=0.5)]
    (run,) = runs_of([*first, run_event(), ResumeEvent(3), *steps(3, 5), *samples])
    assert run.gpu_use is None or run.gpu_use.energy_kwh is None


def test_samples_of_one_card_are_not_the_energy_of_several() -> None:
    """The ledger of several cards has the samples of the first, and the energy of all at its end."""
    events = [run_event(world_size=4), *steps(0, 3), gpu(0), gpu(10)]
    (killed,) = runs_of(events)
    (ended,) = runs_of([*events, EndEvent("finished", 9000.0, energy_kwh=0.5)])
    assert killed.gpu_use is not None
    assert ended.gpu_use is not None
    assert (killed.gpu_use.energy_kwh, killed.gpu_use.watts) == (None, 360.0)
    assert ended.gpu_use.energy_kwh == 0.5


def test_energy_that_is_no_number_is_that_of_the_samples() -> None:
    end = EndEvent("finished", 9000.0, energy_kwh=math.nan)
    (run,) = runs_of([run_event(), *steps(0, 3), gpu(0), gpu(10), end])
    assert run.gpu_use is not None
    assert run.gpu_use.energy_kwh == pytest.approx(0.001)


def test_another_run_in_the_same_ledger_has_its_own_card() -> None:
    first = [run_event(), *steps(0, 3), gpu(1, celsius=90), EndEvent("finished", 900.0, energy_kwh=1.0)]
    failed = [run_event(), gpu(1, celsius=99), EndEvent("out_of_memory", 900.0, energy_kwh=7.0)]
    second = [run_event(), gpu(1, celsius=50), *steps(0, 3), EndEvent("finished", 900.0, energy_kwh=2.0)]
    one, two = runs_of([*first, *failed, *second])
    assert one.gpu_use is not None
    assert two.gpu_use is not None
    assert (one.gpu_use.celsius, one.gpu_use.energy_kwh, one.gpu_use.samples) == (90, 1.0, 1)
    assert (two.gpu_use.celsius, two.gpu_use.energy_kwh, two.gpu_use.samples) == (50, 2.0, 1)
