"""Hints for a file that cannot be read: another trainer's log, or the line that looks most like a row."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

_MOST_LINES = 200_000  # that are looked at; a refusal is no reason to wait
_LONGEST_LINE = 2000  # characters of it
_LONGEST = 100  # characters of a line that is quoted
_INT, _REAL = r"\d{1,12}", r"-?(?:\d{1,9}(?:\.\d{1,15})?(?:[eE][+-]?\d{1,3})?|nan|inf)"

# Rows by who prints them. A trainer has several lines here where its rows have several forms.
_ROWS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
    )
)

# What a row has: a step, a loss, a time.
_PARTS = (
    re.compile(r"(?i:\b(?:step|iter(?:ation)?|epoch))\W{0,3}\d"),
    re.compile(r"(?i:loss)\W{0,6}\d"),
    re.compile(r"\d\s?(?:ms|s|sec|min|it/s|s/it)\b|\d:\d\d:\d\d"),
)
_FEWEST_PARTS = 2


class Others(NamedTuple):
    """What a file holds that no reader can read."""

    trainer: str | None  # that printed most rows
    rows: int
    near_line: int  # number of the line that is nearest to a row
    near_text: str


def look_for_others(printed: Iterator[str]) -> Others:
    """The trainer with the most rows, or else the line that looks most like a row."""
    rows: Counter[str] = Counter()
    nearest, near_line, near_text = _FEWEST_PARTS - 1, 0, ""
    for number, line in enumerate(islice(printed, _MOST_LINES), start=1):
        line = line[:_LONGEST_LINE]
        if (name := _trainer_of(line)) is not None:
            rows[name] += 1
        parts = sum(pattern.search(line) is not None for pattern in _PARTS)
        if parts > nearest:
            nearest, near_line, near_text = parts, number, line
    trainer = max(rows, key=rows.__getitem__, default=None)
    count = rows[trainer] if trainer else 0
    return Others(trainer if count else None, count, near_line, _shortened(near_text))


def _trainer_of(line: str) -> str | None:
    return next((name for name, pattern in _ROWS if pattern.search(line)), None)


def _shortened(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
