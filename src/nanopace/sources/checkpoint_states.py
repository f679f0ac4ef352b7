"""Each checkpoint of Hugging Face's Trainer has the history so far, so a directory may hold a run several times.

LLaMA-Factory and ms-swift also write the same rows with their times, line by line, next to the final state or to the
checkpoints.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import accumulate
from math import isclose
from pathlib import Path

from nanopace.errors import InputError
from nanopace.sources.scalars import to_count, to_number

STATE_FILE = "trainer_state.json"
_WITH_TIMES = ("trainer_log.jsonl", "logging.jsonl")  # of LLaMA-Factory, of ms-swift
_CHECKPOINT = re.compile(r"checkpoint-\w{1,40}", re.ASCII)
_MOST_BYTES = 64 << 20  # of a state to compare: a larger one is kept

Chunks = Callable[[Path], Iterable[bytes]]


def without_earlier_states(logs: list[Path], read: Chunks) -> list[Path]:
    """The logs without checkpoint states whose history is the beginning of a later one's, and without those whose rows
    are also in a log with times.

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
    for log in logs:
        of_run = states.get(log.absolute().parent, []) if log.name in _WITH_TIMES else []
        left = [state for state in of_run if state not in earlier]
        timed = _losses(_entries_of_lines(log, read)) if left else {}
        for state in left:
            rows = _losses(_entries(state, read))
            if rows and all(_is_near(loss, timed.get(step)) for step, loss in rows.items()):
                earlier.add(state)
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
    each = [hash(repr(entry)) for entry in _entries(state, read)]
    return [*accumulate(each, lambda before, entry: hash((before, entry)))]


def _entries(state: Path, read: Chunks) -> list[object]:
    try:
        # nan does not equal itself, but its text does
        found = json.loads(_text(state, read), parse_constant=str)
    except (ValueError, RecursionError):
        return []
    entries = found.get("log_history") if isinstance(found, dict) else None
    return entries if isinstance(entries, list) else []


def _entries_of_lines(log: Path, read: Chunks) -> list[object]:
    entries = []
    for line in _text(log, read).splitlines():
        with suppress(ValueError, RecursionError):
            entries.append(json.loads(line, parse_constant=str))
    return entries


def _text(path: Path, read: Chunks) -> str:
    """What a file holds; nothing if it is too large or cannot be read."""
    data = bytearray()
    try:
        for chunk in read(path):
            data += chunk
            if len(data) > _MOST_BYTES:
                return ""
    except (InputError, OSError):
        return ""
    return data.decode("utf-8-sig", "replace")


def _losses(entries: Iterable[object]) -> dict[int, object]:
    """The loss of each row, by its step."""
    losses = {}
    for entry in entries:
        if isinstance(entry, dict) and entry.get("loss") is not None:
            step = next(
                (entry[key] for key in ("step", "current_steps", "global_step/max_steps") if key in entry), None
            )
            count = to_count(step.partition("/")[0] if isinstance(step, str) else step)
            if count is not None:
                losses[count] = entry["loss"]
    return losses


def _is_near(loss: object, other: object) -> bool:
    """Whether it is the same loss, perhaps rounded to four digits."""
    if loss == other:
        return True
    one, two = to_number(loss), to_number(other)
    return one is not None and two is not None and isclose(one, two, rel_tol=1e-3, abs_tol=1e-4)
