"""What a mistyped word may have been meant for."""

from __future__ import annotations

from collections.abc import Iterable

_LONGEST = 100  # characters that are compared: it takes the square of the time


def nearest(word: str, known: Iterable[str], cutoff: float = 0.75) -> str | None:
    """The known word that is the most like it, or None where none is close."""
    from difflib import get_close_matches  # 10 ms, and only a typing error needs it

    return next(iter(get_close_matches(word[:_LONGEST], list(known), n=1, cutoff=cutoff)), None)
