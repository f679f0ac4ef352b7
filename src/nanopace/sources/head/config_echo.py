"""Reads the config file that nanoGPT prints when it starts: Python text between other lines, wrapped by a terminal.

Nothing marks its end. Like any config, it is parsed with ast and never run. If that fails because another line is in
between, its lines are read one by one.
"""

from __future__ import annotations

import re
from contextlib import suppress

from nanopace.config import KNOBS
from nanopace.config_text import read_config_text
from nanopace.errors import ConfigError
from nanopace.run import FactValue

# A rank or a time stamp may precede a line.
_ASSIGNMENT = re.compile(r"(?:[^#'\"=]{0,40}[\s:\]])?(" + "|".join(KNOBS) + r")\s*=(?!=)\s*(\S.*)")
_MOST_LINES = 2000
_LONGEST_LINE = 1000


class EchoedConfig:
    """The lines so far; a terminal of `width` columns may have wrapped them."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._lines: list[str] = []
        self._piece = 0  # length of the last piece added

    def add(self, line: str) -> None:
        """Add a line, or the rest of a wrapped one, which follows a line that fills the terminal."""
        assignment = _ASSIGNMENT.match(line)
        own = assignment is not None and assignment.start(1) == 0
        continues = self._lines and self._piece >= self._width and not own
        self._piece = len(line)
        if continues:
            self._lines[-1] = (self._lines[-1] + line)[:_LONGEST_LINE]
        elif len(self._lines) < _MOST_LINES:
            self._lines.append(line[:_LONGEST_LINE])

    def knobs(self) -> dict[str, FactValue]:
        """The knobs it sets."""
        try:
            found = read_config_text("\n".join(self._lines), "config")
        except ConfigError:
            found = self._knobs_by_line()
        return {knob: value for knob, value in found.items() if knob in KNOBS}

    def _knobs_by_line(self) -> dict[str, FactValue]:
        found: dict[str, FactValue] = {}
        for line in self._lines:
            # Alone, an f-string has no names to use, and takes long to parse.
            if "{" not in line and (assignment := _ASSIGNMENT.match(line)) is not None:
                with suppress(ConfigError):
                    found |= read_config_text(f"{assignment[1]} = {assignment[2]}", "config")
        return found
