"""The host's time, the start of this process, and how long the machine slept.

On Linux, the monotonic clock stops while a laptop is suspended; CLOCK_BOOTTIME continues. The difference between them
grows with sleep and nothing else: NTP affects neither. On other systems, sleep is unknown and not counted.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import NamedTuple

LEAST_SLEEP_S = 0.5  # nobody suspends for less, and two clocks are never read at exactly the same moment


class Reading(NamedTuple):
    awake: float  # seconds on the monotonic clock, which never goes back
    slept: float  # total seconds since the first reading

    @property
    def wall(self) -> float:
        return self.awake + self.slept


class WallClock:
    """Can be read from several threads: each finds the same sleep."""

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
        """The time now, and a lower bound on the clocks' difference: a delay between the reads only reduces it."""
        sleepless = self._sleepless()
        now = self._monotonic()
        return now, sleepless - now


def boot_time() -> float:
    """The clock that continues while the machine sleeps, if there is one."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


def process_start() -> float:
    """When this process started, on the monotonic clock: Python's start and the imports are part of a run."""
    try:
        with open("/proc/self/stat", "rb") as file:
            ticks = int(file.read().rpartition(b")")[2].split()[19])  # the name before it may hold spaces and brackets
        began = ticks / os.sysconf("SC_CLK_TCK")
        now, since_boot = time.monotonic(), time.clock_gettime(time.CLOCK_BOOTTIME)
    except (OSError, ValueError, IndexError, AttributeError):
        return time.monotonic()  # not Linux: the time before our first import stays unknown
    return now - max(0.0, since_boot - began)
