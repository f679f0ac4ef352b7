"""Reads long logs in which almost every line is a row: usual rows are parsed together and folded.

One expression matches a format's usual row in the raw bytes, and consecutive rows with similar times become one
(numpy_fold.py). All other lines go through the plain reader, in order; so do rows whose iterations do not rise.
nanoGPT's rows, which contain evaluations, have a separate reader (nanogpt.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

import numpy as np

from nanopace.run import Row
from nanopace.sources.bulk.nanogpt_lines import Floats, RowBlock
from nanopace.sources.bulk.numpy_fold import fold_block
from nanopace.sources.readers import LineReader
from nanopace.sources.text import lines, whole_lines

FEWEST = 8  # consecutive rows: fewer are not worth an array

Matches = list[re.Match[bytes]]


class UsualReader(LineReader, Protocol):
    """A plain reader that can also take many rows at once."""

    @property
    def expects_more(self) -> bool:
        """Whether the reader needs the complete line of the next row, not just its figures."""


def feed_usual(
    reader: UsualReader, chunks: Iterable[bytes], usual: re.Pattern[bytes], take: Callable[[Matches], bool]
) -> None:
    """Read all lines in order. `take` is called with the usual ones, and returns whether it took them."""
    found: Matches = []
    for block, ended in whole_lines(chunks):
        parts = block.split(b"\n")
        last = parts.pop()  # after the last line end: nothing, or an incomplete line
        for line in parts:
            row = usual.fullmatch(line)
            if row is not None and not reader.expects_more:
                found.append(row)
                continue
            _feed_rows(reader, found, take)
            found = []
            _feed_line(reader, line + b"\n")
        _feed_rows(reader, found, take)
        found = []
        if not ended:
            _feed_line(reader, last)
    reader.finish()


def column(texts: Iterable[bytes]) -> Floats:
    return np.array(list(texts), np.bytes_).astype(np.float64)


def folded(iteration: Floats, ms: Floats, loss: Floats, mfu: Floats | None = None) -> Iterator[Row] | None:
    """The rows, with similar ones folded into one; None if the iterations do not rise."""
    if not (np.diff(iteration) > 0).all():
        return None
    count = len(iteration)
    nothing = np.full(count, np.nan)
    rows = RowBlock(np.arange(count), iteration.astype(np.int64), ms, loss, nothing if mfu is None else mfu)
    first_single = np.zeros(count, np.bool_)
    first_single[0] = True  # it may follow anything
    return (row for _, row in fold_block(rows, first_single))


def _feed_rows(reader: UsualReader, found: Matches, take: Callable[[Matches], bool]) -> None:
    if len(found) < FEWEST or not take(found):
        for row in found:
            _feed_line(reader, row.string + b"\n")


def _feed_line(reader: UsualReader, line: bytes) -> None:
    for text, ended in lines([line]):
        (reader.feed if ended else reader.feed_cut)(text)
