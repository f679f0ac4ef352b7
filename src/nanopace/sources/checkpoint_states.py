"""Each checkpoint of Hugging Face's Trainer has the history so far, so a directory may hold a run several times."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from itertools import accumulate
from pathlib import Path

from nanopace.errors import InputError

STATE_FILE = "trainer_state.json"
_CHECKPOINT = re.compile(r"checkpoint-\w{1,40}", re.ASCII)
_MOST_BYTES = 64 << 20  # of a state to compare: a larger one is kept

Chunks = Callable[[Path], Iterable[bytes]]


def without_earlier_states(logs: list[Path], read: Chunks) -> list[Path]:
    """The logs without checkpoint states whose history is the beginning of a later one's.

    Histories are compared entry by entry: a state that another run left in the directory differs, and is kept.
    """
    states: dict[Path, list[Path]] = {}  # by run directory
    for log in logs:
        if log.name == STATE_FILE:
            folder = log.absolute().parent
            states.setdefault(folder.parent if _CHECKPOINT.fullmatch(folder.name) else folder, []).append(log)
    earlier: set[Path] = set()
    for of_run in states.values():
        if len(of_run) > 1:
            earlier |= _earlier({state: history for state in of_run if (history := _history(state, read))})
    return [log for log in logs if log not in earlier]


def _earlier(histories: dict[Path, list[int]]) -> set[Path]:
    """The states whose history is the same as another's, or its beginning."""
    beginnings: set[int] = set()
    earlier = set()
    for state, history in sorted(histories.items(), key=lambda each: len(each[1]), reverse=True):
        if history[-1] in beginnings:
            earlier.add(state)
        beginnings.update(history)
    return earlier


def _history(state: Path, read: Chunks) -> list[int]:
    """A hash for each entry that covers all entries up to it; empty if the state cannot be read."""
    data = bytearray()
    try:
        for chunk in read(state):
            data += chunk
            if len(data) > _MOST_BYTES:
                return []
        # nan does not equal itself, but its text does
        found = json.loads(data.decode("utf-8-sig", "replace"), parse_constant=str)
        entries = found.get("log_history") if isinstance(found, dict) else None
        each = [hash(repr(entry)) for entry in entries] if isinstance(entries, list) else []
    except (InputError, OSError, ValueError, RecursionError):
        return []
    return [*accumulate(each, lambda before, entry: hash((before, entry)))]
