"""Differences of logarithms as readable factors: 0.42 times, with an interval."""

from __future__ import annotations

import math

from nanopace.literals import Value
from nanopace.tune.shapley import Share
from nanopace.wording.catalog import UNKNOWN, Words


def times(logarithm: float, words: Words) -> str:
    return words.number(math.exp(logarithm), 3)


def interval(share: Share, words: Words) -> str:
    """The 95% interval; unknown if nothing was repeated."""
    if share.error is None:
        return UNKNOWN
    low, high = (times(share.value + sign * share.error, words) for sign in (-1, 1))
    return words.text("{low} to {high}", low=low, high=high).replace(" ", "\u00a0")


def plain(value: Value) -> str:
    """A knob's value, as short as possible."""
    return f"{value:g}" if isinstance(value, float) else str(value)
