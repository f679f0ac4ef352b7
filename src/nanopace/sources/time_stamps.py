"""Reads the time stamps that loggers and clusters put before a line."""

from __future__ import annotations

import re

_DAY = 86_400.0
# Quoted or not, with a rank, a level or a logger's name before it.
_STAMP = re.compile(
    r"[>\s]{0,8}(?:[\[(]?[A-Za-z]{0,12}\d{0,4}[\])]?:?\s{1,4}){0,2}(?:\[[A-Za-z]{1,12}\d{0,4}\]:?\s{0,4}){0,2}[\[(]?"
    r"(?:(\d{4})[-/](\d\d)[-/](\d\d)[T ])?(\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?(?![\d:<])"
)


class Stamps:
    """Reads the time stamps of a log in order: without a date, it detects midnight."""

    def __init__(self) -> None:
        self._days = 0.0
        self._last = 0.0

    def read(self, prefix: str) -> float | None:
        """Seconds from an arbitrary zero, from the text before a row; None if that is not a time."""
        found = _STAMP.match(prefix)
        if found is None:
            return None
        year, month, day, hours, minutes, seconds, fraction = found.groups()
        clock = 3600.0 * int(hours) + 60 * int(minutes) + int(seconds) + float(f"0.{fraction or 0}")
        if year is not None:
            return _DAY * _days(int(year), int(month), int(day)) + clock
        if clock < self._last - _DAY / 2:
            self._days += 1
        self._last = clock
        return _DAY * self._days + clock


def behind_stamp(line: str) -> str:
    """The line without the time stamp at its beginning."""
    found = _STAMP.match(line)
    return line if found is None else line[found.end() :]


def _days(year: int, month: int, day: int) -> int:
    """Days since a fixed date. Importing datetime would take longer than using it."""
    if month <= 2:  # years start in March here, so that the leap day is the last one
        year, month = year - 1, month + 12
    return 365 * year + year // 4 - year // 100 + year // 400 + (153 * (month - 3) + 2) // 5 + day
