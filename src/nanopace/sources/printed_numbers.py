"""Numbers as trainers print them."""

from __future__ import annotations

import math


def to_int(text: str) -> int:
    """An integer, with or without thousands separators."""
    return int(text.replace(",", ""))


def nan_as_inf(loss: float | None) -> float | None:
    """Turn nan into infinity, to distinguish a loss that is not finite from a missing one (None)."""
    return loss if loss is None or math.isfinite(loss) else math.inf


class RateBounds:
    """The tokens of a step, from the printed tokens per second and the printed time.

    Both are rounded, so a single row only gives bounds; all rows together give narrow ones.
    """

    def __init__(self) -> None:
        self._rows = 0
        self._low = 0.0
        self._high = math.inf

    def narrow(self, low: float, high: float, rows: int = 1) -> None:
        """Narrow the bounds by rows that allow tokens between `low` and `high`."""
        self._rows += rows
        self._low, self._high = max(self._low, low), min(self._high, high)

    @property
    def tokens(self) -> int | None:
        """The roundest number that agrees with every row; None if there is none, or it is not precise."""
        low, high = self._low, self._high
        if self._rows < 2 or not 0 < low <= high <= 1.01 * low:
            return None
        unit = 1 << int(high).bit_length()
        while unit > 1 and high // unit * unit < low:
            unit >>= 1
        found = int(high // unit * unit)
        return found if found >= low else None
