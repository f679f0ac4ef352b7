"""Comments below the lines, and the alerts sent elsewhere."""

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
    "corrupted",
    "interrupted",
    "died",
    "finished",
    "ended",
]


class Comment(NamedTuple):
    """A sentence. With an event, it is an alert or the end, which is also sent to --notify and --webhook."""

    text: str
    event: Event | None = None
    iteration: int | None = None


Say = Callable[[Comment], None]
