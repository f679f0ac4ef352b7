"""Something that nanopace does to a disk, with promises on the way, and a check of what a power cut leaves."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .disk import Trace


@dataclass(frozen=True, slots=True)
class Check:
    """A check of part of the disk: many states differ only in the rest."""

    owed: Callable[[Sequence[Any]], Hashable]  # the sum of all promises
    check: Callable[[Path, Any], None]  # takes a root and what is owed; raises on failure
    concerns: Callable[[str], bool] = lambda _: True


@dataclass(frozen=True, slots=True)
class Scenario:
    trace: Trace
    checks: tuple[Check, ...]


def last(told: Sequence[int]) -> int:
    """What is owed if promises are counted up: the last one."""
    return told[-1] if told else 0
