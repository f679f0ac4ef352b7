"""What is said under the lines, and who else is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

Event = Literal[
    "stall",
    "slower",
    "nan",
    "spike",
    "silent",
    "error",
    "out_of_memory",
    "diverged",
    "interrupted",
    "died",
    "finished",
    "ended",
]


class Comment(NamedTuple):
    """A sentence. With an event it is an alert, or the end, which --notify and --webhook hear of."""

    text: str
    event: Event | None = None
    iteration: int | None = None


Say = Callable[[Comment], None]
