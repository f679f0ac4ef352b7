"""The micro-batches that a step of that many sequences can be split into."""

from __future__ import annotations

import math


def divisors(sequences: int) -> list[int]:
    """All divisors, ascending."""
    small = [each for each in range(1, math.isqrt(sequences) + 1) if sequences % each == 0]
    return sorted({*small, *(sequences // each for each in small)})
