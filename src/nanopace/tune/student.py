"""Student's t: how many standard errors wide an interval is if the error itself comes from a few measurements."""

from __future__ import annotations

import math


def student(share: float, freedom: int) -> float:
    """Half the width, in standard errors, of the two-sided interval that contains this share."""
    low, high = 0.0, math.pi / 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _inside(middle, freedom) < share else (low, middle)
    return math.tan(low) * math.sqrt(freedom)


def _inside(angle: float, freedom: int) -> float:
    """The probability that |t| is below tan(angle) times the root of `freedom` (Abramowitz and Stegun, 26.7.3)."""
    odd = freedom % 2
    term = math.cos(angle) if odd else 1.0
    total = term if freedom > 1 else 0.0
    for each in range(2 + odd, freedom - 1, 2):
        term *= math.cos(angle) ** 2 * (each - 1) / each
        total += term
    total *= math.sin(angle)
    return (angle + total) * 2 / math.pi if odd else total
