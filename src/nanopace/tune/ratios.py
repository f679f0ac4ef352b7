"""Differences as people read them: those of logarithms as factors, 0.42 times; both kinds with an interval."""

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


def figures(share: Share, words: Words) -> dict[str, str]:
    """The ratio and its interval, as sentences name them."""
    return {"ratio": times(share.value, words), "interval": interval(share, words)}


def difference(share: Share, words: Words) -> str:
    """With its sign, since less is usually better."""
    said = words.number(share.value, 4) if share.value < 0 else f"+{words.number(share.value, 4)}"
    return said if share.error is None else f"{said}\u00a0±\u00a0{words.number(share.error, 4)}"


def plain(value: Value) -> str:
    """A knob's value, as short as possible."""
    return f"{value:g}" if isinstance(value, float) else str(value)
