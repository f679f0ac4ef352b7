"""Short ledgers, and the runs read from them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from nanopace.ledger import Event, RunEvent, StepEvent
from nanopace.ledger.codec import to_json
from nanopace.run import Run
from nanopace.sources.formats.table import LEDGER

from .reading import fed

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "ledger-format.md"


def runs_of(events: Iterable[Event]) -> list[Run]:
    return runs_from([to_json(event) for event in events])


def runs_from(lines: Iterable[str]) -> list[Run]:
    return fed(LEDGER, lines, "run.jsonl")


def run_event(at_ms: float = 0.0, **values: object) -> RunEvent:
    return RunEvent("2026-01-01T00:00:00+00:00", "0.1.0", at_ms=at_ms, **values)  # type: ignore[arg-type]


def steps(first: int, last: int, at_ms: float = 0.0) -> list[Event]:
    return [
        StepEvent(i, 100.0 + i, loss=5.0 - i / 10, at_ms=at_ms + 100.0 * (i - first + 1)) for i in range(first, last)
    ]


def documented_example() -> list[str]:
    """The ledger in the documentation."""
    found = re.search(r"```json\n(.*?)```", DOCUMENT.read_text("utf-8"), re.DOTALL)
    assert found
    return found[1].splitlines()
