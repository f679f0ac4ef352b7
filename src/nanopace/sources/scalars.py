"""Numbers from JSON, a printed dict or a table, as a float: infinity for nan, None for anything else."""

from __future__ import annotations

import math

_LONGEST = 40  # characters of a number


def to_number(value: object) -> float | None:
    """A number, or a string that is one. None and True are not numbers."""
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


def json_object(text: str) -> dict[str, object]:
    """The JSON object that a text is; empty if it is none."""
    import json  # which readers of other formats need not wait for

    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def to_count(value: object) -> int | None:
    """A non-negative integer that a counter may have reached."""
    number = to_number(value)
    return int(number) if number is not None and 0 <= number < 1e12 and number == int(number) else None
