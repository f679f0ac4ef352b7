"""Reads nanoGPT logs of many megabytes: numpy parses the usual lines, and similar ones are folded into one.

nanogpt_lines.py parses; numpy_fold.py folds, as fold.py does without numpy. This module decides what to fold: rows with
few evaluations between them are folded with their neighbours, rows with many evaluations with similar rows, and the
first rows of a log not at all. All other lines go through the plain reader, in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nanopace.run import Row
from nanopace.sources.bulk.nanogpt_lines import (
    EvaluationBlock,
    Flags,
    Ints,
    RowBlock,
    Text,
    read_evaluations,
    read_rows,
    read_saves,
)
from nanopace.sources.bulk.numpy_fold import Stretch, fold_block, fold_stretch
from nanopace.sources.fold import Mixture
from nanopace.sources.formats.nanogpt import NanogptReader
from nanopace.sources.text import clean, whole_lines

if TYPE_CHECKING:
    from nanopace.sources.readers import LineReader

HEAD = 500  # rows at the start of a run that are not folded: undoing the smoothing of the mfu needs each row
LEAST_STRETCH, LONGEST_STRETCH = 4096, 16384  # rows to fold with similar ones: longer for longer logs
ROWS_PER_EVALUATION = 8  # a stretch ends early if it has more evaluations than one per this many rows
FEWEST_EVALUATIONS = 16  # with fewer, rows are folded with their neighbours

_ROW, _EVALUATION, _SAVE = 1, 2, 3  # kinds of lines; 0 is any other


class _Lines(NamedTuple):
    """The lines of a block, by kind."""

    text: Text
    kind: Ints
    rows: RowBlock
    evaluations: EvaluationBlock
    row: Ints  # by evaluation: the row that follows it
    saves: Flags  # by evaluation


def feed_bulk(reader: LineReader, chunks: Iterable[bytes]) -> None:
    """Feed all lines of a log to the reader, in order, with similar rows folded into one."""
    assert isinstance(reader, NanogptReader)
    left = HEAD
    single = True  # the next row follows a line that is not a row
    rows_read = lines_read = 0
    for block, ended in whole_lines(chunks):
        reader.line = lines_read
        if not ended:
            reader.feed_cut(clean(block.decode("utf-8", "replace")))
            continue
        lines = _read(Text(block), without_mfu=not reader.mfu_seen)
        head, left = _head(lines.rows, left)
        _feed(reader, lines, head, single, longest=_longest_stretch(rows_read))
        rows_read += len(lines.rows.line)
        lines_read += len(lines.text)
        single = bool(lines.kind[-1] != _ROW)
    reader.finish()


def _longest_stretch(rows_read: int) -> int:
    return max(LEAST_STRETCH, min(LONGEST_STRETCH, rows_read // 128))


def _read(text: Text, *, without_mfu: bool) -> _Lines:
    rows, evaluations, saving = read_rows(text, without_mfu=without_mfu), read_evaluations(text), read_saves(text)
    kind = np.zeros(len(text), np.int64)
    kind[rows.line], kind[evaluations.line] = _ROW, _EVALUATION
    rows = _without_duplicates(rows)
    saving = saving[saving > 0]
    kind[saving[kind[saving - 1] == _EVALUATION]] = _SAVE  # after any other line, it is left to the plain reader
    followed = np.searchsorted(rows.line, evaluations.line)
    if len(evaluations.line) and followed[-1] == len(rows.line):
        kept = followed < len(rows.line)  # the others wait for a row in the next block
        kind[evaluations.line[~kept]] = 0
        evaluations, followed = evaluations.part(kept), followed[kept]
    return _Lines(text, kind, rows, evaluations, followed, kind[evaluations.line + 1] == _SAVE)


def _without_duplicates(rows: RowBlock) -> RowBlock:
    """If a row is printed twice in succession, keep one."""
    again = np.flatnonzero(np.diff(rows.iteration) == 0) + 1
    if not len(again):
        return rows
    duplicate = rows.line[again] == rows.line[again - 1] + 1
    for column in (rows.ms, rows.loss, rows.mfu):
        duplicate &= (column[again] == column[again - 1]) | np.isnan(column[again])
    kept = np.ones(len(rows.line), np.bool_)
    kept[again[duplicate]] = False
    return rows.part(kept)


def _head(rows: RowBlock, left: int) -> tuple[Flags, int]:
    """Which rows are at the start of a run, or of a process that went back, and how many more will be."""
    head = np.zeros(len(rows.line), np.bool_)
    head[:left] = True
    left -= len(head)
    for begin in (np.flatnonzero(np.diff(rows.iteration) < 0) + 1).tolist():
        head[begin : begin + HEAD] = True
        left = begin + HEAD - len(head)
    return head, max(0, left)


def _feed(reader: NanogptReader, lines: _Lines, head: Flags, single: bool, *, longest: int) -> None:
    """Fold stretches with many evaluations into mixtures. Fold the rest with neighbours, or read it line by line."""
    rows = lines.rows
    taken = np.zeros(len(rows.line), np.bool_)
    taken_lines = lines.kind == _ROW
    folded: list[tuple[int, Row | Mixture]] = []
    for begin, end in _stretches(lines, head, longest):
        mixture = fold_stretch(_stretch(lines, begin, end))
        if mixture is None:
            continue
        folded.append((int(rows.line[begin]), mixture))
        taken[begin:end] = True
        taken_lines[rows.line[begin - 1] + 1 : rows.line[end - 1]] = True
    after_other = np.empty(len(lines.kind), np.bool_)
    after_other[0], after_other[1:] = single, lines.kind[:-1] != _ROW
    first_single = after_other[rows.line]
    first_single |= head
    first_single[1:] |= taken[:-1]
    left = rows.part(~taken) if folded else rows
    folded += fold_block(left, first_single[~taken])
    folded.sort(key=lambda item: item[0])
    _feed_in_order(reader, lines.text, folded, np.flatnonzero(~taken_lines).tolist())


def _feed_in_order(
    reader: NanogptReader, text: Text, folded: list[tuple[int, Row | Mixture]], others: list[int]
) -> None:
    at, lines_before = 0, reader.line
    for line, item in folded:
        while at < len(others) and others[at] < line:
            reader.line = lines_before + others[at]
            _feed_line(reader, text, others[at])
            at += 1
        if isinstance(item, Row):
            reader.feed_row(item)
        else:
            reader.feed_mixture(item)
    for other in others[at:]:
        reader.line = lines_before + other
        _feed_line(reader, text, other)


def _feed_line(reader: NanogptReader, text: Text, line: int) -> None:
    reader.feed(clean(text.data[text.starts[line] : text.ends[line]].tobytes().decode("utf-8", "replace")))


# --- stretches with many evaluations ---------------------------------------------------------------------------------


def _stretches(lines: _Lines, head: Flags, longest: int) -> Iterator[tuple[int, int]]:
    """The range of rows of each part of the block with enough evaluations and only usual lines."""
    rows = lines.rows
    if len(lines.evaluations.line) < FEWEST_EVALUATIONS:
        return
    breaks = _breaks(lines, head)
    evaluations = np.bincount(lines.row, minlength=len(rows.line))
    before = np.concatenate(([0], np.cumsum(evaluations)))
    starts = breaks.copy()
    starts[1:] |= breaks[:-1]
    begin = np.flatnonzero(starts)
    of_stretch = np.repeat(begin, np.diff(begin, append=len(starts)))
    part = (np.arange(len(starts)) - of_stretch) // longest
    evaluated = (before[:-1] - before[of_stretch]) // (longest // ROWS_PER_EVALUATION)
    starts[1:] |= (np.diff(part) != 0) | (np.diff(evaluated) != 0)
    begin = np.flatnonzero(starts)
    end = np.append(begin[1:], len(starts))
    dense = ~breaks[begin] & (before[end] - before[begin] >= FEWEST_EVALUATIONS)
    yield from zip(begin[dense].tolist(), end[dense].tolist(), strict=True)


def _breaks(lines: _Lines, head: Flags) -> Flags:
    """Rows that belong to no stretch: at the start, after another line, going back, or with odd evaluations."""
    rows, evaluations, row = lines.rows, lines.evaluations, lines.row
    breaks = head.copy()
    others = np.cumsum(lines.kind == 0)[rows.line]
    breaks[1:] |= (np.diff(others) != 0) | (np.diff(rows.iteration) <= 0)
    odd = np.diff(evaluations.iteration, prepend=-1) <= 0
    odd |= (evaluations.iteration <= rows.iteration[row - 1]) | (evaluations.iteration > rows.iteration[row])
    breaks[row[odd]] = True
    breaks[0] = True  # it may follow anything
    return breaks


def _stretch(lines: _Lines, begin: int, end: int) -> Stretch:
    first, last = np.searchsorted(lines.row, (begin, end))
    return Stretch(
        lines.rows.part(slice(begin, end)),
        lines.evaluations.part(slice(first, last)),
        lines.saves[first:last],
        lines.row[first:last] - begin,
    )
