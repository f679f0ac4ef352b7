"""What any trainer's process leaves in a log besides its lines: torchrun's prefix, and how it died."""

from __future__ import annotations

import re

from nanopace.run import Ending

RANK = re.compile(r"\[(?:rank|default)(\d+)\]:\s?")  # before every line, if torchrun is asked for it

# Also for other alternations: the group that matched is a key of ENDINGS.
ENDING = (
    r"(?P<memory>OutOfMemoryError\b|CUDA out of memory)"
    r"|(?P<interrupt>^\s*(?:\[\w+\]:\s*)?KeyboardInterrupt\b|^\s*\^C\s*$)"
    r"|(?P<traceback>Traceback \(most recent call last\)|^Killed\b|^Segmentation fault)"
)
ENDINGS: dict[str, Ending] = {"memory": "out_of_memory", "interrupt": "interrupted", "traceback": "error"}
ENDED = re.compile(ENDING)


def ending_of(line: str) -> Ending | None:
    """How the process ended, if the line says so."""
    found = ENDED.search(line)
    return None if found is None else ENDINGS[found.lastgroup or ""]
