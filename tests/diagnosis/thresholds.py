"""Finds the threshold of a statement, to compare it with the constants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

Holds = Callable[[float], bool]


def threshold(holds: Holds, low: float, high: float) -> float:
    """Where `holds` changes between the two; it does so once."""
    at_low = holds(low)
    assert holds(high) != at_low, f"the same at {low} and {high}"
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) == at_low else (low, middle)
    return high


def codes(findings: Sequence[Any]) -> set[str]:
    return {finding.code for finding in findings}
