"""The card's sensors, from the lines that llm.c prints below its rows."""

from __future__ import annotations

import re
from array import array
from collections import Counter
from types import MappingProxyType

from nanopace.medians import upper_median
from nanopace.run import GpuUse

# Our ledger's names. llm.c does not say which kind of thermal limit a "thermal cap" is.
_REASONS = {"power cap": "power_cap", "thermal cap": "thermal"}


class Sensors:
    """Summarises the sensors."""

    def __init__(self) -> None:
        self._columns = {name: array("d") for name in ("utilization", "mhz", "watts", "celsius")}
        self._throttled: Counter[str] = Counter()

    def add(self, found: re.Match[str]) -> None:
        for name, column in self._columns.items():
            column.append(float(found[name]))
        if (reason := _REASONS.get(found["cap"].strip())) is not None:
            self._throttled[reason] += 1

    def use(self) -> GpuUse | None:
        """The summary, or None if nothing was printed."""
        samples = len(self._columns["mhz"])
        if not samples:
            return None
        return GpuUse(
            samples=samples,
            sm_mhz=upper_median(self._columns["mhz"]),
            watts=upper_median(self._columns["watts"]),
            celsius=max(self._columns["celsius"]),
            utilization=upper_median(self._columns["utilization"]),
            throttled=MappingProxyType({why: count / samples for why, count in self._throttled.most_common()}),
        )
