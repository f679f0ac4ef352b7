"""Our own ledger where it is of many megabytes: steps as the trainer writes them are read together, and folded.

The usual step is matched by one expression, without a decoder of JSON, and steps in a row whose times are alike become
one row (bulk_fold.py). Every other line goes through the plain reader, in its place; so do steps that do not rise.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from nanopace.sources.bulk_fold import fold_block
from nanopace.sources.bulk_lines import RowBlock
from nanopace.sources.from_ledger import SHORTEST_MS, LedgerReader
from nanopace.sources.text import lines, whole_lines

if TYPE_CHECKING:
    from nanopace.sources.build import LineReader

FEWEST = 8  # steps in a row: fewer are not worth their arrays
_DECIMAL = rb"(\d{1,11}(?:\.\d{1,17})?)"
_ANY = rb"-?\d{1,11}(?:\.\d{1,17})?(?:e-\d\d)?"
_STEP = re.compile(
    rb'\{"event":"step","iteration":(\d{1,15}),"ms":' + _DECIMAL + rb',"loss":' + _DECIMAL + rb'(?:,"tokens":\d{1,15})?'
    rb'(?:,"lr":' + _ANY + rb')?(?:,"grad_norm":' + _ANY + rb')?,"at_ms":' + _DECIMAL + rb"\}"
)


def feed_bulk_ledger(reader: LineReader, chunks: Iterable[bytes]) -> None:
    """All lines of a ledger, in their order, to the reader: steps that are alike as one row."""
    assert isinstance(reader, LedgerReader)
    steps: list[re.Match[bytes]] = []
    for block, ended in whole_lines(chunks):
        found = block.split(b"\n")
        if ended:
            found.pop()
        for line in found:
            step = _STEP.fullmatch(line)
            if step is not None and not reader.expects_more:
                steps.append(step)
                continue
            if steps:
                _feed_steps(reader, steps)
                steps = []
            _feed_line(reader, line)
        if steps:
            _feed_steps(reader, steps)
            steps = []
    reader.finish()


def _feed_line(reader: LedgerReader, line: bytes) -> None:
    for text, _ in lines([line]):
        reader.feed(text)


def _feed_steps(reader: LedgerReader, steps: list[re.Match[bytes]]) -> None:
    if len(steps) >= FEWEST:
        columns = zip(*(step.groups() for step in steps), strict=True)
        iteration, ms, loss, at_ms = (np.array(column, np.bytes_).astype(np.float64) for column in columns)
        if (np.diff(iteration) > 0).all() and (ms >= SHORTEST_MS).all():
            whole = iteration.astype(np.int64)
            rows = RowBlock(np.arange(len(steps)), whole, ms, loss, np.full(len(steps), np.nan))
            first_single = np.zeros(len(steps), np.bool_)
            first_single[0] = True  # it may follow on anything
            reader.feed_steps((row for _, row in fold_block(rows, first_single)), float(at_ms.max()))
            return
    for step in steps:
        _feed_line(reader, step.string)
