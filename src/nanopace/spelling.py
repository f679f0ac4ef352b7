"""Suggestions for mistyped words."""

from __future__ import annotations

from collections.abc import Iterable

_LONGEST = 100  # characters to compare: the time grows with the square


def nearest(word: str, known: Iterable[str], cutoff: float = 0.75) -> str | None:
    """The most similar known word, or None if none is close."""
    from difflib import get_close_matches  # takes 10 ms, and only typos need it

    return next(iter(get_close_matches(word[:_LONGEST], list(known), n=1, cutoff=cutoff)), None)
