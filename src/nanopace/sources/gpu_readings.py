"""Sensor readings for a chart: few enough for a page, with the extremes of every stretch."""

from __future__ import annotations

import math

from nanopace.ledger.events import GpuEvent
from nanopace.run import GpuReading

STRETCHES = 250
MOST = 6000  # to hold at a time: a run of weeks has a million
_COLUMNS = ("sm_mhz", "watts", "celsius", "memory_used_gb")


class GpuReadings:
    """Takes the readings one by one, over all processes of a run."""

    def __init__(self) -> None:
        self._held: list[tuple[float, GpuEvent]] = []
        self._before_s = 0.0  # the wall clock at the start of this process

    def add(self, event: GpuEvent) -> None:
        if event.at_ms is None or not math.isfinite(event.at_ms):
            return
        self._held.append((self._before_s + event.at_ms / 1000, event))
        if len(self._held) > MOST:
            self._held = _thinned(self._held)

    def end_process(self, wall_ms: float) -> None:
        self._before_s += wall_ms / 1000

    def all(self) -> tuple[GpuReading, ...]:
        return tuple(
            GpuReading(seconds, **{name: _finite(getattr(event, name)) for name in _COLUMNS}, throttle=event.throttle)
            for seconds, event in _thinned(self._held)
        )


def _thinned(readings: list[tuple[float, GpuEvent]]) -> list[tuple[float, GpuEvent]]:
    """For every stretch, keep the lowest and highest reading of each sensor, and one for each throttling reason."""
    if len(readings) <= STRETCHES:
        return readings
    first = min(seconds for seconds, _ in readings)
    width = (max(seconds for seconds, _ in readings) - first) / STRETCHES or 1.0
    stretches: dict[int, list[int]] = {}
    for index, (seconds, _) in enumerate(readings):
        stretches.setdefault(int((seconds - first) / width), []).append(index)
    kept: set[int] = set()
    for members in stretches.values():
        for name in _COLUMNS:
            values = [(value, i) for i in members if (value := _finite(getattr(readings[i][1], name))) is not None]
            if values:
                kept |= {min(values)[1], max(values)[1]}
        kept.update({readings[i][1].throttle: i for i in members}.values())
    return [readings[index] for index in sorted(kept)]


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
