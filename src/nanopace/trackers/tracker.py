"""The interface of a tracker."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

from nanopace.literals import Value


class Heading(NamedTuple):
    """What a tracker shows at the top of a run."""

    project: str
    name: str
    config: Mapping[str, Value]
    directory: Path  # for trackers that write files


class Tracker(Protocol):
    """One run in one tool. Any method may raise anything: these are other people's libraries."""

    def open(self, heading: Heading) -> str | None:
        """Start a run. Return a message for the user, if there is one."""

    def log(self, step: int, figures: Mapping[str, float], at_s: float | None) -> None:
        """Record the figures of one step. `at_s` is the time as in time.time(); None: now."""

    def close(self) -> None:
        """Make sure that all figures are stored."""
