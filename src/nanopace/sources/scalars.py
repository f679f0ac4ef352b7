"""Numbers of JSON, of a printed dict or of a table: whatever they are, a finite float, infinity for nan, or None."""

from __future__ import annotations

import math

_LONGEST = 40  # characters of a number


def to_number(value: object) -> float | None:
    """A number, or a text that is one; None is none, and so is True."""
    if (
        isinstance(value, bool)
        or not isinstance(value, (int, float, str))
        or (isinstance(value, str) and len(value) > _LONGEST)
    ):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else math.inf


def to_count(value: object) -> int | None:
    """A whole number from 0 on that a counter may have reached."""
    number = to_number(value)
    return int(number) if number is not None and 0 <= number < 1e12 and number == int(number) else None
