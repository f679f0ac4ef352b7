"""nanochat's log where it is of many megabytes: rows of the usual form are read together, and folded.

The usual row is matched by one narrow expression, and rows one after the other whose times are alike become one
(bulk_fold.py). Every other line goes through the plain reader, in its place; so do rows that do not rise.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from nanopace.sources.bulk_fold import fold_block
from nanopace.sources.bulk_lines import RowBlock
from nanopace.sources.nanochat import NanochatReader
from nanopace.sources.text import lines, whole_lines

if TYPE_CHECKING:
    from nanopace.sources.build import LineReader

FEWEST = 8  # rows one after the other: fewer are not worth their arrays
_ROW = re.compile(
    rb"step (\d{1,12})/\d{1,12} \([\d.]{1,9}%\) \| loss: (\d{1,9}\.\d{1,9}) \| (?:grad norm: [\d.]{1,12} \| )?"
    rb"(?:lrm: [\d.]{1,9} \| )?dt: (\d{1,9}\.\d\d)ms \| tok/sec: (\d[\d,]{0,14}) \| (?:bf16_)?mfu: (\d{1,6}\.\d{1,6})"
    rb"(?: \| epoch: [^|]{1,40})? \| total time: (\d{1,9}\.\d{1,6})m(?: \| eta: [\d.]{1,12}m)?"
)


def feed_bulk_nanochat(reader: LineReader, chunks: Iterable[bytes]) -> None:
    """All lines of a log, in their order, to the reader: rows that are alike as one."""
    assert isinstance(reader, NanochatReader)
    rows: list[re.Match[bytes]] = []
    for block, ended in whole_lines(chunks):
        found = block.split(b"\n")
        last = None if ended else found[-1]
        found.pop()
        for line in found:
            row = _ROW.fullmatch(line)
            if row is not None and not reader.expects_more:
                rows.append(row)
                continue
            _feed_rows(reader, rows)
            rows = []
            _feed_line(reader, line)
        _feed_rows(reader, rows)
        rows = []
        if last is not None:
            for text, _ in lines([last]):
                reader.feed_cut(text)
    reader.finish()


def _feed_line(reader: NanochatReader, line: bytes) -> None:
    for text, _ in lines([line]):
        reader.feed(text)


def _feed_rows(reader: NanochatReader, rows: list[re.Match[bytes]]) -> None:
    if len(rows) >= FEWEST:
        iterations, losses, times, rates, mfus, minutes = zip(*(row.groups() for row in rows), strict=True)
        iteration, ms = np.array(iterations, np.int64), np.array(times, np.bytes_).astype(np.float64)
        if (np.diff(iteration) > 0).all() and (ms > 0).all():
            loss, percent = (np.array(each, np.bytes_).astype(np.float64) for each in (losses, mfus))
            per_s = np.array([each.replace(b",", b"") for each in rates], np.bytes_).astype(np.float64)
            block = RowBlock(np.arange(len(rows)), iteration, ms, loss, percent / 100)
            first_single = np.zeros(len(rows), np.bool_)
            first_single[0] = True  # it may follow on anything
            bounds = float(((per_s - 0.5) * (ms - 0.005)).max()), float(((per_s + 1) * (ms + 0.005)).min())
            folded = (row for _, row in fold_block(block, first_single))
            reader.feed_rows(folded, float(minutes[-1]), (bounds[0] / 1000, bounds[1] / 1000), len(rows))
            return
    for row in rows:
        _feed_line(reader, row.string)
