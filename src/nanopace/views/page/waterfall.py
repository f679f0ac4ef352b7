"""A waterfall chart: how one figure becomes another, change by change; or what several changes do, each by itself.

The axis is logarithmic, so that equal changes have equal lengths everywhere; every bar can have an interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_MARGIN = 0.04  # of the axis, on both sides


@dataclass(frozen=True, slots=True)
class Change:
    """A change in logarithms; `error` is half the width of the interval."""

    name: str
    value: float
    error: float | None
    says: str


@dataclass(frozen=True, slots=True)
class Bar:
    """A row of the chart; positions are fractions of the axis."""

    name: str
    kind: str  # whole, up, down
    left: float
    width: float
    low: float | None  # of the interval
    high: float | None
    says: str


def bars(first: tuple[str, float, str], changes: Sequence[Change], last: tuple[str, float, str] | None) -> list[Bar]:
    """`first` and `last`: a name, its logarithm, and its text. Without a last one, every change begins at the first."""
    at, spans = first[1], []
    for change in changes:
        spans.append((at, at + change.value))
        at = first[1] if last is None else at + change.value
    whole = [first[1]] if last is None else [first[1], last[1]]
    reach = [
        (end - (change.error or 0.0), end + (change.error or 0.0))
        for change, (_, end) in zip(changes, spans, strict=True)
    ]
    marked = [*whole, *(each for pair in (*spans, *reach) for each in pair)]
    lowest, length = min(marked), (max(marked) - min(marked)) or 1.0

    def place(value: float) -> float:
        return _MARGIN + (value - lowest) / length * (1 - 2 * _MARGIN)

    ends = [Bar(name, "whole", 0.0, place(value), None, None, says) for name, value, says in (first, last or first)]
    found = ends[:1]
    for change, span, interval in zip(changes, spans, reach, strict=True):
        left, right = sorted(map(place, span))
        low, high = (None, None) if change.error is None else map(place, interval)
        kind = "up" if change.value > 0 else "down"
        found.append(Bar(change.name, kind, left, right - left, low, high, change.says))
    return found if last is None else [*found, ends[1]]
