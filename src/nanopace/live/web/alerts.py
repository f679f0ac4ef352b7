"""What went wrong in a run, and when it was noticed here."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from nanopace.diagnosis.result import Diagnosis, Finding
from nanopace.live.web.library import Key
from nanopace.views.summary import ALARMS


class Alert(NamedTuple):
    finding: Finding
    noticed: str | None  # the time of day; None if it was already so when watching started


class Alerts:
    """Remembers when each alert was first noticed, however often a run is looked at."""

    def __init__(self, clock: Callable[[], time.struct_time] = time.localtime) -> None:
        self._clock = clock
        self._noticed: dict[Key, dict[str, str | None]] = {}

    def of(self, key: Key, run: Diagnosis) -> list[Alert]:
        """The alerts, most serious first."""
        first = key not in self._noticed
        noticed = self._noticed.setdefault(key, {})
        now = time.strftime("%H:%M", self._clock())
        found = {each.code: each for each in run.findings if each.code in ALARMS}
        for code in found:
            noticed.setdefault(code, None if first else now)
        return [Alert(found[code], noticed[code]) for code in ALARMS if code in found]
