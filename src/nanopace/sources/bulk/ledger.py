"""Reads our ledger when it has many megabytes: usual steps need no JSON decoder."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from nanopace.sources.bulk.usual import Matches, column, feed_usual, folded
from nanopace.sources.formats.ledger import SHORTEST_MS, LedgerReader

if TYPE_CHECKING:
    from nanopace.sources.build import LineReader

_DECIMAL = rb"(\d{1,11}(?:\.\d{1,17})?)"
_ANY = rb"-?\d{1,11}(?:\.\d{1,17})?(?:e-\d\d)?"
_STEP = re.compile(
    rb'\{"event":"step","iteration":(\d{1,15}),"ms":'
    + _DECIMAL
    + rb',"loss":'
    + _DECIMAL
    + rb'(?:,"tokens":(\d{1,15}))?'
    rb'(?:,"lr":' + _ANY + rb')?(?:,"grad_norm":' + _ANY + rb')?,"at_ms":' + _DECIMAL + rb"\}"
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
