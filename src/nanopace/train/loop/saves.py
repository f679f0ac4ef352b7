"""A run's last save, which nothing comes after: where it fails it is tried again, and at last elsewhere.

A disk that is full for a moment costs a few seconds that way, and one that stays full costs no step where --rescue_dir
names another. All of it is short, because whoever stops a run may not wait long.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

WAITS = (0.5, 1.0, 2.0)  # seconds before each further attempt

_A_LOOK = 0.05  # seconds between looks at whether somebody wants to leave


@dataclass(frozen=True, slots=True)
class Unsaved:
    """The last step has no checkpoint in out_dir."""

    path: Path  # that it should have
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


def waited(seconds: float, asked: Callable[[], bool]) -> bool:
    """False as soon as somebody asks to stop, who had not when this began, or asks again."""
    before, end = asked(), time.monotonic() + seconds
    try:
        while time.monotonic() < end:
            if asked() != before:
                return False
            time.sleep(_A_LOOK)
    except KeyboardInterrupt:
        return False
    return True
