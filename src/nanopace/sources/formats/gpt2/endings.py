"""How a process died, from a line of its log. Notes in prose may mention the same errors."""

from __future__ import annotations

import re

from nanopace.run import Ending
from nanopace.sources.processes import died

_NOTES = re.compile(r"\s{0,8}(?:[#*>|-]|\d{1,2}\.\s)|[^`]{0,200}`")


def ending_of(line: str) -> Ending | None:
    ending = died.ending_of(line)
    return None if ending is None or _NOTES.match(line) else ending
