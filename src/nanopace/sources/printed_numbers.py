"""Numbers as trainers print them."""

from __future__ import annotations

import math


def to_int(text: str) -> int:
    """A whole number, with or without commas between its thousands."""
    return int(text.replace(",", ""))


def nan_as_inf(loss: float | None) -> float | None:
    """nan becomes infinity, so that None (no loss was printed) and a loss that is not finite stay apart."""
    return loss if loss is None or math.isfinite(loss) else math.inf
