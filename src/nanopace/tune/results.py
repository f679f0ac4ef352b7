"""What trials have found, kept line by line as they end, so that an interrupted measurement goes on from there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nanopace.record import field_names
from nanopace.tune.trial import Outcome

RESULTS = "results.jsonl"


def keep_result(folder: Path, changed: object, number: int, outcome: Outcome) -> None:
    """`changed` says which trial it was, in whatever JSON the caller likes; `number` which of its repeats."""
    fields = {name: getattr(outcome, name) for name in field_names(Outcome)}
    with (folder / RESULTS).open("a", encoding="utf-8") as file:  # what stands before it may be torn
        file.write("\n" + json.dumps({"changed": changed, "number": number, "outcome": fields}))


def kept_results(folder: Path) -> Iterator[tuple[Any, int, Outcome]]:
    """What was kept; a torn last line is one that was not."""
    try:
        lines = (folder / RESULTS).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return
    for line in lines:
        try:
            read = json.loads(line)
            outcome = Outcome(**{**read["outcome"], "step_ms": tuple(read["outcome"]["step_ms"])})
            changed, number = read["changed"], read["number"]
        except (ValueError, KeyError, TypeError):
            continue
        yield changed, number, outcome
