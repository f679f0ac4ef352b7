"""The host's time, and how long the machine slept.

On Linux the monotonic clock stops in a suspended laptop, and CLOCK_BOOTTIME goes on. Their distance grows by the sleep,
and by nothing else: NTP touches neither. Elsewhere sleep is unknown, and counted nowhere.
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
    """Safe to read from several threads: each would find the same sleep."""

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
        """Now, and the least by which the clocks are apart: a delay between the two reads can only make it less."""
        sleepless = self._sleepless()
        now = self._monotonic()
        return now, sleepless - now


def boot_time() -> float:
    """The clock that goes on while the machine sleeps, where there is one."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()
