"""Reads our ledger when it has many megabytes: usual steps need no JSON decoder."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from nanopace.sources.bulk.usual import Matches, column, feed_usual, folded
from nanopace.sources.formats.ledger import SHORTEST_MS, LedgerReader

if TYPE_CHECKING:
    from nanopace.sources.readers import LineReader

_WHOLE = rb"(?:0|[1-9]\d{0,14})"  # a number such as 007 is no JSON
_DECIMAL = rb"(?:0|[1-9]\d{0,10})(?:\.\d{1,17})?"
_ANY = rb"-?%b(?:e-\d\d)?" % _DECIMAL
_STEP = re.compile(
    rb'\{"event":"step","iteration":(%b),"ms":(%b),"loss":(%b)(?:,"tokens":(%b))?(?:,"lr":%b)?(?:,"grad_norm":%b)?,'
    rb'"at_ms":(%b)\}' % (_WHOLE, _DECIMAL, _DECIMAL, _WHOLE, _ANY, _ANY, _DECIMAL)
)


def feed_bulk_ledger(reader: LineReader, chunks: Iterable[bytes]) -> None:
    """Feed all lines of a ledger to the reader, in order, with similar steps folded into one row."""
    assert isinstance(reader, LedgerReader)
    ledger = reader

    def take(steps: Matches) -> bool:
        numbers, times, losses, tokens, stamps = zip(*(step.groups() for step in steps), strict=True)
        ms = column(times)
        rows = folded(column(numbers), ms, column(losses)) if (ms >= SHORTEST_MS).all() else None
        if rows is not None:
            known = next((count for each in tokens if each is not None and (count := int(each))), 0)
            ledger.feed_steps(rows, float(column(stamps).max()), known)
        return rows is not None

    feed_usual(ledger, chunks, _STEP, take)
