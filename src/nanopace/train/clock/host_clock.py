"""The host's clocks: one that stands still while the machine sleeps, and how long it slept.

On Linux the monotonic clock stops in a suspended laptop, and CLOCK_BOOTTIME goes on. Their distance grows by what was
slept, and by nothing else: a step of the time of day (NTP) touches neither. Elsewhere sleep stays unknown, and is in
nobody's time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

LEAST_SLEEP_S = 0.5  # nobody suspends for less, and two clocks are never read at the same moment


class Reading(NamedTuple):
    awake: float  # seconds on the monotonic clock, which never goes back
    slept: float  # seconds in all since the first reading

    @property
    def wall(self) -> float:
        return self.awake + self.slept


class WallClock:
    """May be read by several threads: what one of them finds out the others would have found out too."""

    def __init__(
        self,
        monotonic: Callable[[], float] = time.monotonic,
        sleepless: Callable[[], float] | None = None,
    ) -> None:
        self._monotonic = monotonic
        self._sleepless = sleepless or boot_time
        self._latest = monotonic()
        self._apart = max(self._distance()[1] for _ in range(3))
        self._slept = 0.0

    def read(self) -> Reading:
        awake, apart = self._distance()
        if apart - self._apart - self._slept >= LEAST_SLEEP_S:
            self._slept = apart - self._apart
        self._latest = max(self._latest, awake)
        return Reading(self._latest, self._slept)

    def _distance(self) -> tuple[float, float]:
        """Now, and by how much the clocks are apart at least: whoever is kept between two readings is so after the
        first, so that it can only look like less."""
        sleepless = self._sleepless()
        now = self._monotonic()
        return now, sleepless - now


def boot_time() -> float:
    """The clock that goes on while the machine sleeps, where there is one."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()
