"""The message for a file that no format reads but a --pattern would."""

from __future__ import annotations

from collections.abc import Iterable
from shlex import quote

from nanopace.errors import NotALog
from nanopace.sources.unread.guess import guess


def offer_pattern(path: str, printed: Iterable[str]) -> NotALog | None:
    """How to read the lines that look like rows, if there are any."""
    found = guess(printed)
    if found is None:
        return None
    patterns = " ".join(f"--pattern {quote(each)}" for each in found.patterns)
    values = {"path": path, "count": found.lines, "iteration": found.iteration_column, "at": found.kind_column}
    return _offered(found.kind, **values, patterns=patterns)


def _offered(kind: str, **values: object) -> NotALog:
    match kind:
        case "ms":
            return NotALog(
                "{path}: {count} lines look like rows: iteration in column {iteration}, milliseconds in column {at}; "
                "read them with {patterns}",
                **values,
            )
        case "s":
            return NotALog(
                "{path}: {count} lines look like rows: iteration in column {iteration}, seconds in column {at}; "
                "read them with {patterns}",
                **values,
            )
        case "it_per_s":
            return NotALog(
                "{path}: {count} lines look like rows: iteration in column {iteration}, iterations per second in "
                "column {at}; read them with {patterns}",
                **values,
            )
        case "elapsed_ms" | "elapsed_s":
            return NotALog(
                "{path}: {count} lines look like rows: iteration in column {iteration}, time since the start in column "
                "{at}; read them with {patterns}",
                **values,
            )
        case "stamp":
            return NotALog(
                "{path}: {count} lines look like rows: iteration in column {iteration}, time stamp in column {at}; "
                "read them with {patterns}",
                **values,
            )
        case "record":
            return NotALog(
                "{path}: groups of lines look like rows, with the iteration in the first line of each; read them with "
                "{patterns}",
                **values,
            )
        case _:
            return NotALog(
                "{path}: {count} lines look like rows without a time: iteration in column {iteration}, loss in column "
                "{at}; read them with {patterns}",
                **values,
            )
