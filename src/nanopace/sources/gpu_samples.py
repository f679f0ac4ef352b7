"""Summarises the samples of a card's sensors over all processes of a run."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType

from nanopace.ledger.events import GpuEvent
from nanopace.medians import upper_median
from nanopace.run import GpuUse

_MS_PER_HOUR = 3_600_000.0
_MEDIANS = ("sm_mhz", "memory_mhz", "watts", "utilization")
_POWER, _AT_THE_LIMIT = "power_cap", ("sm_mhz", "watts")
_HIGHEST = ("celsius", "memory_used_gb")


class GpuSamples:
    """Takes the samples one by one. If a process on one card does not report its energy, it is computed from its
    samples; those of several cards are of the first one only."""

    def __init__(self) -> None:
        self._samples = 0
        self._since_step: list[GpuEvent] = []  # since the last step of this process, or since its start
        self._stepping = False
        self._training, self._at_power_limit = 0, 0  # samples between two steps, and how many of them are at the limit
        self._limited = {name: array("d") for name in _AT_THE_LIMIT}
        self._columns = {name: array("d") for name in (*_MEDIANS, *_HIGHEST)}
        self._throttled: Counter[str] = Counter()
        self._energy_kwh: float | None = None  # of the processes that have ended
        self._energy_unknown = False  # a process reported no energy, and its samples do not provide it
        self._sampled_kwh = 0.0  # of the current process, from its first sample to its last
        self._last: GpuEvent | None = None

    def add(self, event: GpuEvent) -> None:
        self._samples += 1
        self._since_step.append(event)
        _append(event, self._columns)
        self._throttled.update(_reasons(event))
        self._sampled_kwh += _between(self._last, event)
        self._last = event

    def step(self) -> None:
        """Count the samples since the previous step as training. Before the first step and after the last, a card that
        waits for a compiler or a disk is at no limit."""
        for event in self._since_step if self._stepping else ():
            self._training += 1
            if _POWER in _reasons(event):
                self._at_power_limit += 1
                _append(event, self._limited)
        self._since_step.clear()
        self._stepping = True

    def end_process(self, energy_kwh: float | None, cards: int) -> None:
        """`energy_kwh`: what the process reported for all its cards, if anything."""
        if energy_kwh is None or not math.isfinite(energy_kwh):
            energy_kwh = (self._sampled_kwh or None) if cards == 1 else None
        self._energy_unknown |= energy_kwh is None
        self._energy_kwh = (self._energy_kwh or 0.0) + (energy_kwh or 0.0)
        self._sampled_kwh, self._last = 0.0, None
        self._since_step.clear()
        self._stepping = False

    def use(self) -> GpuUse | None:
        """The summary; None if there was neither a sample nor energy."""
        energy_kwh = None if self._energy_unknown else self._energy_kwh
        if not self._samples and energy_kwh is None:
            return None
        columns = self._columns
        return GpuUse(
            samples=self._samples,
            **{name: _median(columns[name]) for name in _MEDIANS},
            **{name: max(columns[name], default=None) for name in _HIGHEST},
            throttled=MappingProxyType({why: n / self._samples for why, n in self._throttled.most_common()}),
            energy_kwh=energy_kwh,
            training_samples=self._training,
            at_power_limit=self._at_power_limit,
            limited_mhz=_median(self._limited["sm_mhz"]),
            limited_watts=_median(self._limited["watts"]),
        )


def _reasons(event: GpuEvent) -> set[str]:
    """Why the clocks were throttled."""
    return {reason.strip() for reason in (event.throttle or "").split(",")} - {""}


def _append(event: GpuEvent, columns: Mapping[str, array[float]]) -> None:
    """Add the event's value to each column."""
    for name, column in columns.items():
        value = getattr(event, name)
        if value is not None and math.isfinite(value):
            column.append(value)


def _between(before: GpuEvent | None, after: GpuEvent) -> float:
    """kWh from one sample to the next."""
    if before is None or before.watts is None or after.watts is None or before.at_ms is None or after.at_ms is None:
        return 0.0
    kwh = (before.watts + after.watts) / 2000 * (after.at_ms - before.at_ms) / _MS_PER_HOUR
    return max(0.0, kwh) if math.isfinite(kwh) else 0.0


def _median(values: array[float]) -> float | None:
    return upper_median(values) if values else None
