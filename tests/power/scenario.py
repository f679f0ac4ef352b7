"""Something that nanopace does to a disk, promising this and that on the way, and a check of what a cut has left."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .disk import Trace


@dataclass(frozen=True, slots=True)
class Check:
    """Of a part of what is there: many states differ in the rest of it alone."""

    owed: Callable[[Sequence[Any]], Hashable]  # what all that was promised comes to
    check: Callable[[Path, Any], None]  # a root, and what is owed; raises whatever it likes
    concerns: Callable[[str], bool] = lambda _: True


@dataclass(frozen=True, slots=True)
class Scenario:
    trace: Trace
    checks: tuple[Check, ...]


def last(told: Sequence[int]) -> int:
    """Owed where what is promised is counted up."""
    return told[-1] if told else 0
