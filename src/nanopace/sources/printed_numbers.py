"""Numbers as trainers print them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from nanopace.sources.build import RunBuilder

    Floats = npt.NDArray[np.float64]
    Number = TypeVar("Number", float, Floats)


def to_int(text: str) -> int:
    """An integer, with or without thousands separators."""
    return int(text.replace(",", ""))


def nan_as_inf(loss: float | None) -> float | None:
    """Turn nan into infinity, to distinguish a loss that is not finite from a missing one (None)."""
    return loss if loss is None or math.isfinite(loss) else math.inf


def half_unit(printed: str) -> float:
    """Half a unit of the last digit: how far a rounded number may be off."""
    return 0.5 / 10.0 ** len(printed.partition(".")[2])


class RateBounds:
    """The tokens of a step, from the printed tokens per second and the printed time.

    Both are rounded, so a single row only gives bounds; all rows together give narrow ones.
    """

    def __init__(self) -> None:
        self._rows = 0
        self._low = 0.0
        self._high = math.inf

    def add(self, rate: float, ms: float, half_ms: float) -> None:
        """Add a row. Its rate may be rounded down, and its time be off by `half_ms`."""
        self.narrow(*_bounds(rate, ms, half_ms))

    def add_all(self, rates: Floats, ms: Floats, half_ms: float) -> None:
        """Add many rows."""
        low, high = _bounds(rates, ms, half_ms)
        self.narrow(float(low.max()), float(high.min()), rows=len(ms))

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

    def tell(self, builder: RunBuilder) -> None:
        """Add the fact, if it is known."""
        if (tokens := self.tokens) is not None:
            builder.fact("tokens_per_iteration", tokens, "inferred", "printed_rate")


def _bounds(rate: Number, ms: Number, half_ms: float) -> tuple[Number, Number]:
    return (rate - 0.5) * (ms - half_ms) / 1000, (rate + 1) * (ms + half_ms) / 1000
