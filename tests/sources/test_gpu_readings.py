"""Weeks of readings are reduced to a few, and what people look for in them is still there."""

from __future__ import annotations

import pytest

from nanopace.ledger.events import GpuEvent
from nanopace.sources.gpu_readings import MOST, STRETCHES, GpuReadings


@pytest.mark.parametrize("count", [100, 40_000])
def test_extremes_survive_and_the_number_is_bounded(count: int) -> None:
    readings = GpuReadings()
    for n in range(count):
        clock = 300.0 if n == count // 3 else 2400.0 + n % 5
        why = "thermal" if n == count // 2 else None
        readings.add(
            GpuEvent(n, sm_mhz=clock, watts=200.0 + n % 7, celsius=60.0 + n / count, throttle=why, at_ms=5000.0 * n)
        )
    found = readings.all()
    assert len(found) <= min(count, 7 * STRETCHES) < MOST
    assert [each.seconds for each in found] == sorted(each.seconds for each in found)
    assert min(each.sm_mhz or 0 for each in found) == 300.0
    assert max(each.celsius or 0 for each in found) == 60.0 + (count - 1) / count
    assert [each.seconds for each in found if each.throttle == "thermal"] == [5.0 * (count // 2)]
    late = [each for each in found if each.seconds > 5.0 * count / 2]
    assert len(late) == pytest.approx(len(found) / 2, rel=0.1)  # evenly over the run, however long it grows
    assert all(each.memory_used_gb is None for each in found)


def test_a_reading_without_its_time_has_no_place() -> None:
    readings = GpuReadings()
    readings.add(GpuEvent(0, watts=200.0))
    assert readings.all() == ()
