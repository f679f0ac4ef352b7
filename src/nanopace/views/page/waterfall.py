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
    ends, reach = [first[1] if last is None else last[1]], []
    at = first[1]
    for change in changes:
        end = at + change.value
        ends += [at, end]
        reach.append((end - (change.error or 0.0), end + (change.error or 0.0)))
        at = first[1] if last is None else end
    lowest, highest = min([*ends, *(low for low, _ in reach)]), max([*ends, *(high for _, high in reach)])
    length = (highest - lowest) or 1.0

    def place(value: float) -> float:
        return _MARGIN + (value - lowest) / length * (1 - 2 * _MARGIN)

    found = [Bar(first[0], "whole", 0.0, place(first[1]), None, None, first[2])]
    at = first[1]
    for change, (low, high) in zip(changes, reach, strict=True):
        left, right = sorted((place(at), place(at + change.value)))
        measured = change.error is not None
        found.append(
            Bar(
                change.name,
                "up" if change.value > 0 else "down",
                left,
                right - left,
                place(low) if measured else None,
                place(high) if measured else None,
                change.says,
            )
        )
        at = first[1] if last is None else at + change.value
    return found if last is None else [*found, Bar(last[0], "whole", 0.0, place(last[1]), None, None, last[2])]
