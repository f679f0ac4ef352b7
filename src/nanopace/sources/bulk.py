"""Logs of many megabytes: numpy reads the rows, and neighbours that are alike are folded into one.

Nearly every line of a long nanoGPT log is exactly

    iter 1234: loss 3.1416, time 169.24ms, mfu 12.06%

Such lines are found and read here, eight bytes at a time: a number and its line's fixed text are each within reach of
one 64-bit word. Every other line goes through the plain reader, in its place. fold.py is the plain twin of the folding.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from nanopace.run import Row
from nanopace.sources.fold import LARGEST_GROUP, SLOW
from nanopace.sources.nanogpt import NanogptReader
from nanopace.sources.text import clean, whole_lines

if TYPE_CHECKING:
    from nanopace.sources.build import LineReader

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Words = npt.NDArray[np.uint64]
Flags = npt.NDArray[np.bool_]

_PAD = b" " * 8  # so that a word can be read around any byte of the block

# By the length of a number: which bytes of the word that ends with it are its own, and zeros for the others.
_KEEP = np.array([(1 << 64) - (1 << 64 - 8 * length) for length in range(9)], np.uint64)
_FILL = ~_KEEP & np.uint64(0x3030303030303030)


class RowBlock(NamedTuple):
    """The rows of a block, by column; mfu is nan where none is printed."""

    line: Ints  # which line of the block
    iteration: Ints
    ms: Floats
    loss: Floats
    mfu: Floats


def feed_bulk(reader: LineReader, chunks: Iterable[bytes]) -> None:
    """All lines of a log, in their order, to the reader: rows that are alike as one."""
    assert isinstance(reader, NanogptReader)
    single = True  # the next row follows a line that is no row
    for block, ended in whole_lines(chunks):
        if not ended:
            reader.feed_cut(clean(block.decode("utf-8", "replace")))
            continue
        single = _feed_block(reader, block, single)
    reader.finish()


def _feed_block(reader: NanogptReader, block: bytes, single: bool) -> bool:
    data = np.frombuffer(_PAD + block + _PAD, np.uint8)
    ends = np.flatnonzero(data == ord("\n"))
    starts = np.empty_like(ends)
    starts[0], starts[1:] = len(_PAD), ends[:-1] + 1
    rows = read_rows(data, starts, ends, without_mfu=not reader.mfu_seen)
    is_row = np.zeros(len(ends), np.bool_)
    is_row[rows.line] = True
    others = np.flatnonzero(~is_row).tolist()
    after_other = np.empty(len(ends), np.bool_)
    after_other[0], after_other[1:] = single, ~is_row[:-1]
    groups = fold_block(rows, after_other[rows.line])
    at = 0
    for line, row in groups:
        while at < len(others) and others[at] < line:
            _feed_line(reader, data, starts[others[at]], ends[others[at]])
            at += 1
        reader.feed_row(row)
    for other in others[at:]:
        _feed_line(reader, data, starts[other], ends[other])
    return bool(len(is_row)) and not is_row[-1]


def _feed_line(reader: NanogptReader, data: Bytes, start: int, end: int) -> None:
    reader.feed(clean(data[start:end].tobytes().decode("utf-8", "replace")))


# --- reading ---------------------------------------------------------------------------------------------------------


def read_rows(data: Bytes, starts: Ints, ends: Ints, *, without_mfu: bool) -> RowBlock:
    """The lines that are a row and nothing else. Where no row has an mfu so far, those without one count too."""
    colons, commas = np.flatnonzero(data == ord(":")), np.flatnonzero(data == ord(","))
    colon, comma = np.searchsorted(colons, starts), np.searchsorted(commas, starts)
    n_colons = np.diff(colon, append=len(colons))
    n_commas = np.diff(comma, append=len(commas))
    with_mfu = np.flatnonzero((n_colons == 1) & (n_commas == 2) & (data[ends - 1] == ord("%")))
    found = _rows_with_mfu(data, with_mfu, starts, ends, colons[colon[with_mfu]], commas, comma)
    if without_mfu and not len(found.line):
        plain = np.flatnonzero((n_colons == 1) & (n_commas == 1) & (data[ends - 1] == ord("s")))
        found = _rows_without_mfu(data, plain, starts, ends, colons[colon[plain]], commas, comma)
    return found


def _rows_with_mfu(
    data: Bytes, line: Ints, starts: Ints, ends: Ints, colon: Ints, commas: Ints, comma: Ints
) -> RowBlock:
    words = _words(data)
    first, second = commas[comma[line]], commas[comma[line] + 1]
    mfu, good = _decimal(words, second + 6, ends[line] - 1, 2)
    good &= _follows(words, second - 2, b"ms, mfu ")
    return _rows(words, line, starts[line], colon, first, second - 2, mfu / 100, good)


def _rows_without_mfu(
    data: Bytes, line: Ints, starts: Ints, ends: Ints, colon: Ints, commas: Ints, comma: Ints
) -> RowBlock:
    words = _words(data)
    good = _follows(words, ends[line] - 2, b"ms")
    mfu = np.full(len(line), np.nan)
    return _rows(words, line, starts[line], colon, commas[comma[line]], ends[line] - 2, mfu, good)


def _rows(
    words: Words, line: Ints, start: Ints, colon: Ints, comma: Ints, time_end: Ints, mfu: Floats, good: Flags
) -> RowBlock:
    iteration, fits = _whole(words, start + 5, colon)
    good &= fits
    loss, fits = _decimal(words, colon + 7, comma, 4)
    good &= fits
    ms, fits = _decimal(words, comma + 7, time_end, 2)
    good &= fits & (ms > 0)
    good &= _follows(words, start, b"iter ") & _follows(words, colon, b": loss ") & _follows(words, comma, b", time ")
    if good.all():
        return RowBlock(line, iteration, ms, loss, mfu)
    return RowBlock(line[good], iteration[good], ms[good], loss[good], mfu[good])


def _words(data: Bytes) -> Words:
    """The eight bytes from each place on, as one number; the first is the lowest."""
    return np.ndarray((len(data) - 7,), np.dtype("<u8"), data, strides=(1,))


def _follows(words: Words, at: Ints, text: bytes) -> Flags:
    mask = np.uint64((1 << 8 * len(text)) - 1)
    found: Flags = (words[at] & mask) == np.uint64(int.from_bytes(text, "little"))
    return found


def _digits(words: Words, start: Ints, end: Ints) -> tuple[Words, Ints]:
    """The up to eight characters of a number, with zeros in front; and how many they are."""
    length = end - start
    return (words[end - 8] & _KEEP.take(length, mode="clip")) | _FILL.take(length, mode="clip"), length


def _number(word: Words) -> tuple[Ints, Flags]:
    """Eight digits as a number, in three multiplications; False where one of them is no digit."""
    high, threes = np.uint64(0xF0F0F0F0F0F0F0F0), np.uint64(0x3030303030303030)
    good = ((word & high) == threes) & (((word + np.uint64(0x0606060606060606)) & high) == threes)
    value = word & np.uint64(0x0F0F0F0F0F0F0F0F)
    value = (value * np.uint64(2561)) >> np.uint64(8) & np.uint64(0x00FF00FF00FF00FF)
    value = (value * np.uint64(6553601)) >> np.uint64(16) & np.uint64(0x0000FFFF0000FFFF)
    value = (value * np.uint64(42949672960001)) >> np.uint64(32)
    return value.astype(np.int64), good


def _whole(words: Words, start: Ints, end: Ints) -> tuple[Ints, Flags]:
    word, length = _digits(words, start, end)
    value, good = _number(word)
    return value, good & (length >= 1) & (length <= 8)


def _decimal(words: Words, start: Ints, end: Ints, decimals: int) -> tuple[Floats, Flags]:
    """A number with a fixed count of decimals: its point becomes a zero, which is taken out again."""
    word, length = _digits(words, start, end)
    at = np.uint64(8 * (7 - decimals))
    point = (word >> at) & np.uint64(0xFF) == np.uint64(ord("."))
    value, good = _number(word ^ (np.uint64(ord(".") ^ ord("0")) << at))
    scale = 10.0**decimals
    whole = np.floor(value / (10 * scale))
    return (value - whole * (9 * scale)) / scale, good & point & (length >= decimals + 2) & (length <= 8)


# --- folding ---------------------------------------------------------------------------------------------------------


def fold_block(rows: RowBlock, first_single: Flags) -> Iterator[tuple[int, Row]]:
    """The rows with those that are alike as one, each with its line. `first_single`: follows a line that is no row."""
    if not len(rows.line):
        return
    starts = _block_starts(rows, first_single)
    begin = np.flatnonzero(starts)
    medians = _medians(rows.ms, begin)
    slow = rows.ms > SLOW * np.repeat(medians, np.diff(begin, append=len(starts)))
    if slow.any():
        starts |= slow
        starts[1:] |= slow[:-1]
        begin = np.flatnonzero(starts)
        medians = _medians(rows.ms, begin)
    count = np.diff(begin, append=len(starts))
    last = begin + count - 1
    columns = (
        rows.line[begin],
        rows.iteration[begin],
        medians,
        np.add.reduceat(rows.loss, begin) / count,
        rows.mfu[last],
        count,
        rows.iteration[last],
        np.add.reduceat(rows.ms, begin),
    )
    for line, first, ms, loss, mfu, n, final, total in zip(*(column.tolist() for column in columns), strict=True):
        yield line, Row(first, ms, loss, None if mfu != mfu else mfu, n, final, total)


def _block_starts(rows: RowBlock, first_single: Flags) -> Flags:
    """Where a stretch of evenly spaced rows begins, or a part of one that is large enough."""
    starts = first_single.copy()
    starts[0] = True
    second = np.zeros_like(starts)
    second[1:] = first_single[:-1]
    step = np.diff(rows.iteration, prepend=rows.iteration[0])
    uneven = np.zeros_like(starts)
    uneven[2:] = step[2:] != step[1:-1]
    uneven[1:] &= ~starts[:-1]  # the second row of a stretch has no step before it
    uneven[1:] |= step[1:] <= 0
    starts |= second | uneven
    begin = np.flatnonzero(starts)
    place = np.arange(len(starts)) - np.repeat(begin, np.diff(begin, append=len(starts)))
    starts |= place % LARGEST_GROUP == 0
    return starts


def _medians(values: Floats, begin: Ints) -> Floats:
    """The upper median of each block of values; `begin` is where they begin."""
    count = np.diff(begin, append=len(values))
    medians = values[begin]
    several = np.flatnonzero(count > 1)
    if len(several):
        place = np.arange(count[several].max())
        table = values.take(begin[several, None] + place, mode="clip")
        table[place >= count[several, None]] = np.inf
        table.sort(axis=1)
        medians[several] = table[np.arange(len(several)), count[several] // 2]
    return medians
