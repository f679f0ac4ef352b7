"""What the samples of a card's sensors come to, over all processes of a run."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterable
from types import MappingProxyType

from nanopace.ledger.events import GpuEvent
from nanopace.run import GpuUse

_MS_PER_HOUR = 3_600_000.0
_MEDIANS = ("sm_mhz", "memory_mhz", "watts", "utilization")
_HIGHEST = ("celsius", "memory_used_gb")


class _Usual:
    """What is said of most samples, not of the highest: medians and shares."""

    def __init__(self) -> None:
        self.samples = 0
        self.columns = {name: array("d") for name in _MEDIANS}
        self.throttled: Counter[str] = Counter()

    def add(self, event: GpuEvent) -> None:
        self.samples += 1
        for name, column in self.columns.items():
            value = getattr(event, name)
            if value is not None and math.isfinite(value):
                column.append(value)
        self.throttled.update({reason.strip() for reason in (event.throttle or "").split(",")} - {""})


class GpuSamples:
    """Takes the samples one by one. A process that does not tell its energy has that of its samples.

    A card that waits for the compiler is at no limit: medians and shares are of the samples since the first step of
    each process, unless there is none of those.
    """

    def __init__(self) -> None:
        self._training, self._starting = _Usual(), _Usual()
        self._highest: dict[str, float | None] = dict.fromkeys(_HIGHEST)
        self._energy_kwh: float | None = None  # of the processes that ended
        self._untold = False  # a process took energy that nothing tells
        self._sampled_kwh = 0.0  # of the process that runs now, from its first sample to its last
        self._last: GpuEvent | None = None

    def add(self, event: GpuEvent, *, training: bool) -> None:
        """`training`: the process did a step before."""
        (self._training if training else self._starting).add(event)
        for name, highest in self._highest.items():
            value = getattr(event, name)
            if value is not None and math.isfinite(value):
                self._highest[name] = value if highest is None else max(highest, value)
        self._sampled_kwh += _between(self._last, event)
        self._last = event

    def end_process(self, energy_kwh: float | None) -> None:
        """With the energy that it told, if it did."""
        if energy_kwh is None or not math.isfinite(energy_kwh):
            energy_kwh = self._sampled_kwh or None
        self._untold |= energy_kwh is None
        self._energy_kwh = (self._energy_kwh or 0.0) + (energy_kwh or 0.0)
        self._sampled_kwh, self._last = 0.0, None

    def use(self) -> GpuUse | None:
        """All of it; None where there was not a single sample and no energy."""
        energy_kwh = None if self._untold else self._energy_kwh
        usual = self._training if self._training.samples else self._starting
        if not usual.samples and energy_kwh is None:
            return None
        return GpuUse(
            samples=usual.samples,
            **{name: _median(column) for name, column in usual.columns.items()},
            **self._highest,
            throttled=MappingProxyType({why: n / usual.samples for why, n in usual.throttled.most_common()}),
            energy_kwh=energy_kwh,
        )


def _between(before: GpuEvent | None, after: GpuEvent) -> float:
    """kWh from one sample to the next."""
    if before is None or before.watts is None or after.watts is None or before.at_ms is None or after.at_ms is None:
        return 0.0
    kwh = (before.watts + after.watts) / 2000 * (after.at_ms - before.at_ms) / _MS_PER_HOUR
    return max(0.0, kwh) if math.isfinite(kwh) else 0.0


def _median(values: Iterable[float]) -> float | None:
    ordered = sorted(values)
    return ordered[len(ordered) // 2] if ordered else None
