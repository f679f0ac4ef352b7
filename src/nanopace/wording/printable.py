"""Make text safe to show: no name or log line can break a line, move the cursor or reverse the writing direction."""

from __future__ import annotations

from nanopace.wording.numbers import FIXED, NARROW

_INVISIBLE = dict.fromkeys([*range(0x09), 0x0B, 0x0C, *range(0x0E, 0x20), *range(0x7F, 0xA0)])
_INVISIBLE |= dict.fromkeys([0x061C, 0x200B, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2060, 0x2070), 0xFEFF])


def one_line(text: str, keep: str = "") -> str:
    """For a terminal: replace unprintable characters by spaces, except those in `keep`."""
    return "".join(c if c.isprintable() or c in keep else " " for c in text)


def clean(text: str) -> str:
    """The same, but keep the no-break spaces of our own numbers."""
    return one_line(text, FIXED + NARROW)


def visible(text: str) -> str:
    """For a page, keeping line breaks: remove control characters, direction marks, and bytes of file names that are not
    text."""
    return text.translate(_INVISIBLE).encode("utf-8", "replace").decode("utf-8")
