"""A run of Hugging Face's Trainer that a directory holds several times: every checkpoint has the history so far."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from itertools import accumulate
from pathlib import Path

from nanopace.errors import InputError

STATE_FILE = "trainer_state.json"
_CHECKPOINT = re.compile(r"checkpoint-\w{1,40}", re.ASCII)
_MOST_BYTES = 64 << 20  # of a state that is compared: a larger one stands for itself

Chunks = Callable[[Path], Iterable[bytes]]


def without_earlier_states(logs: list[Path], read: Chunks) -> list[Path]:
    """The same logs, without states of a checkpoint whose history is the beginning of a later one's.

    They are compared entry by entry: what another run left in the directory has another history, and stays.
    """
    states: dict[Path, list[Path]] = {}  # by the directory of the run
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
    """Those that are the beginning of another one, or the same."""
    beginnings: set[int] = set()
    earlier = set()
    for state, history in sorted(histories.items(), key=lambda each: len(each[1]), reverse=True):
        if history[-1] in beginnings:
            earlier.add(state)
        beginnings.update(history)
    return earlier


def _history(state: Path, read: Chunks) -> list[int]:
    """For each entry a number that stands for all up to it; empty where it cannot be read."""
    data = bytearray()
    try:
        for chunk in read(state):
            data += chunk
            if len(data) > _MOST_BYTES:
                return []
        # nan is not equal to itself, the text of it is
        found = json.loads(data.decode("utf-8-sig", "replace"), parse_constant=str)
        entries = found.get("log_history") if isinstance(found, dict) else None
        each = [hash(repr(entry)) for entry in entries] if isinstance(entries, list) else []
    except (InputError, OSError, ValueError, RecursionError):
        return []
    return [*accumulate(each, lambda before, entry: hash((before, entry)))]
