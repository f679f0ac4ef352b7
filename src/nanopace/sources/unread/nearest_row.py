"""A hint for a file that cannot be read: the line that looks most like a row, or the error that ended the program."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from nanopace.sources.time_stamps import behind_stamp

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

# The last line of a traceback: an exception's name and, usually, its text.
_ERROR = re.compile(
    r"^(?:\[\w+\]:\s?|\d{1,4}:\s|\s){0,4}(?:[A-Za-z_]\w{0,60}\.){0,8}[A-Z]\w{0,60}(?:Error|Exception)(?::\s|$)"
)


def nearest_row(printed: Iterator[str], *, with_loss: bool = False) -> tuple[int, str]:
    """Its line number and text, shortened; (0, "") if no line is close. `with_loss`: a step and a time are not enough,
    since this trainer prints both before its first row."""
    most, number, text = _FEWEST_PARTS - 1, 0, ""
    for at, line in enumerate(islice(printed, _MOST_LINES), start=1):
        line = line[:_LONGEST_LINE]
        behind = behind_stamp(line)
        found = [pattern.search(behind) is not None for pattern in _PARTS]
        parts = sum(found)
        if parts > most and (found[_LOSS] or not with_loss):
            most, number, text = parts, at, line
    return number, shortened(text)


def error_line(printed: Iterator[str]) -> tuple[int, str]:
    """The same for the first error after a traceback: later ones are often its consequences."""
    in_traceback = False
    for at, line in enumerate(islice(printed, _MOST_LINES), start=1):
        line = line[:_LONGEST_LINE]
        in_traceback = in_traceback or "Traceback (most recent call last)" in line
        if in_traceback and _ERROR.match(line) is not None:
            return at, shortened(line)
    return 0, ""


def shortened(text: str) -> str:
    """The text on one line, short enough for a message."""
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
