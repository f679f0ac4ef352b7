"""A hint for a file that cannot be read: the line that looks most like a row."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

_MOST_LINES = 200_000  # to examine; a refusal should not take long
_LONGEST_LINE = 2000  # characters of it
_LONGEST = 100  # characters of a line to quote

# The parts of a row: a step, a loss, a time.
_PARTS = (
    re.compile(r"(?i:\b(?:step|iter(?:ation)?|epoch))\W{0,3}\d"),
    re.compile(r"(?i:loss)\W{0,6}\d"),
    re.compile(r"\d\s?(?:ms|s|sec|min|it/s|s/it)\b|\d:\d\d:\d\d"),
)
_LOSS = 1
_FEWEST_PARTS = 2


def nearest_row(printed: Iterator[str], *, with_loss: bool = False) -> tuple[int, str]:
    """Its line number and text, shortened; (0, "") if no line is close. `with_loss`: a step and a time are not enough,
    since this trainer prints both before its first row."""
    most, number, text = _FEWEST_PARTS - 1, 0, ""
    for at, line in enumerate(islice(printed, _MOST_LINES), start=1):
        line = line[:_LONGEST_LINE]
        found = [pattern.search(line) is not None for pattern in _PARTS]
        parts = sum(found)
        if parts > most and (found[_LOSS] or not with_loss):
            most, number, text = parts, at, line
    return number, shortened(text)


def shortened(text: str) -> str:
    """The text on one line, short enough for a message."""
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
