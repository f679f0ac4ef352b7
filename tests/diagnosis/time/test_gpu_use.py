from __future__ import annotations

from typing import Any

import pytest

from nanopace.diagnosis.diagnose import diagnose
from nanopace.diagnosis.result import Finding
from nanopace.diagnosis.time.gpu_use import gpu_findings
from nanopace.record import replace
from nanopace.run import GpuUse, Row, Rows, Run, Span

from ..synthetic import nanogpt_run


def run_with(wall_ms: float | None = 3_600_000.0, **use: Any) -> Run:
    rows = Rows([Row(iteration, 100.0) for iteration in range(50)])
    return Run("log", "ledger", rows, row_contains_evaluation=False, wall_ms=wall_ms, gpu_use=GpuUse(100, **use))


def test_without_sensors_there_is_nothing_to_say() -> None:
    assert gpu_findings(nanogpt_run()) == []
    assert diagnose(nanogpt_run()).gpu_use is None


@pytest.mark.parametrize(
    ("throttled", "code", "numbers"),
    [
        ({"thermal": 0.25, "hw_slowdown": 0.25}, "throttled_heat", {"highest_celsius": 89.0}),
        ({"thermal": 0.01}, None, {}),  # once, in a hundred samples
        ({"power_brake": 0.1, "hw_slowdown": 0.3}, "throttled_hardware", {}),
        ({"power_cap": 0.97}, "throttled_power", {"median_watts": 450.0, "median_mhz": 2500.0}),
        ({"power_cap": 0.3}, None, {}),  # it is worth a word only if it is reached most of the time
    ],
)
def test_what_slows_the_clock_down(throttled: dict[str, float], code: str | None, numbers: dict[str, float]) -> None:
    found = gpu_findings(run_with(celsius=89.0, watts=450.0, sm_mhz=2500.0, throttled=throttled))
    expected = code and Finding(code, {"throttled_share": max(throttled.values()), **numbers})
    assert found == ([expected] if expected else [])


def test_the_verdict_on_the_card_has_told_of_its_power() -> None:
    run = run_with(throttled={"power_cap": 0.97, "thermal": 0.1}, celsius=90.0)
    assert [each.code for each in gpu_findings(run, "half_idle")] == ["throttled_heat", "throttled_power"]
    assert [each.code for each in gpu_findings(run, "power_limited")] == ["throttled_heat"]


@pytest.mark.parametrize("reason", ["sync_boost", "clock_setting", "of a newer version"])
def test_other_reasons_are_in_the_figures_alone(reason: str) -> None:
    run = run_with(throttled={reason: 1.0})
    assert gpu_findings(run) == []
    found = diagnose(run).gpu_use
    assert found is not None
    assert found.throttled == {reason: 1.0}


def test_energy() -> None:
    numbers = {"energy_kwh": 0.3, "mean_watts": pytest.approx(300.0)}
    assert gpu_findings(run_with(energy_kwh=0.3)) == [Finding("energy", numbers)]
    without_clock = gpu_findings(run_with(None, energy_kwh=0.3))
    assert without_clock == [Finding("energy", {"energy_kwh": 0.3, "mean_watts": None})]


def test_the_mean_power_is_of_the_time_in_which_the_machine_was_awake() -> None:
    slept = replace(run_with(2 * 3_600_000.0, energy_kwh=0.3), spans=(Span("stall", 5, 3_600_000.0, reason="suspend"),))
    assert gpu_findings(slept)[0].numbers["mean_watts"] == pytest.approx(300.0)


def test_a_card_that_is_too_hot_is_no_reason_to_be_content() -> None:
    cool, hot = run_with(), run_with(throttled={"thermal": 0.5})
    assert "nothing_to_change" in [each.code for each in diagnose(cool).findings]
    assert "nothing_to_change" not in [each.code for each in diagnose(hot).findings]
