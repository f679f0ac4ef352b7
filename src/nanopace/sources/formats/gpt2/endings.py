"""How a process died, from a line of its log. Notes in prose may mention the same errors."""

from __future__ import annotations

import re

from nanopace.run import Ending
from nanopace.sources.processes.died import ENDING, ENDINGS

_ENDED = re.compile(ENDING)
_NOTES = re.compile(r"\s{0,8}(?:[#*>|-]|\d{1,2}\.\s)|[^`]{0,200}`")


def ending_of(line: str) -> Ending | None:
    found = _ENDED.search(line)
    return None if found is None or _NOTES.match(line) else ENDINGS[found.lastgroup or ""]
