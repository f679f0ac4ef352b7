"""What trials have found, kept line by line as they end, so that an interrupted measurement goes on from there."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nanopace.files import open_own, read_bounded
from nanopace.record import field_names
from nanopace.tune.trial import Outcome

RESULTS = "results.jsonl"
_LARGEST = 64 << 20  # bytes: trials of a lifetime
_MOST = 1e30  # of whatever a trial counts


def keep_result(folder: Path, changed: object, number: int, outcome: Outcome) -> None:
    """`changed` says which trial it was, in whatever JSON the caller likes; `number` which of its repeats."""
    fields = {name: getattr(outcome, name) for name in field_names(Outcome)}
    line = "\n" + json.dumps(
        {"changed": changed, "number": number, "outcome": fields}
    )  # what stands before may be torn
    with os.fdopen(open_own(folder / RESULTS, os.O_WRONLY | os.O_APPEND | os.O_CREAT), "ab") as file:
        file.write(line.encode())


def kept_results(folder: Path) -> Iterator[tuple[Any, int, Outcome]]:
    """What was kept; a torn last line is one that was not."""
    try:
        data = read_bounded(folder / RESULTS, _LARGEST)
    except FileNotFoundError:
        return
    for line in (data or b"").splitlines():
        try:
            read = json.loads(line)
            outcome = Outcome(**{**read["outcome"], "step_ms": tuple(read["outcome"]["step_ms"])})
            changed, number = read["changed"], read["number"]
            _check(outcome)
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
        yield changed, number, outcome


def _check(outcome: Outcome) -> None:
    """ValueError for what no trial of ours has written; TypeError where it has no number."""
    figures = (outcome.tokens_per_second, outcome.flops_per_token, outcome.micro_batch, outcome.compile_ms)
    times = (outcome.seconds, *outcome.step_ms, *(each for each in figures if each is not None))
    if not all(0 <= each < _MOST for each in times):
        raise ValueError(outcome)
