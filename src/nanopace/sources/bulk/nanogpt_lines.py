"""Parses the usual lines of a nanoGPT log with numpy, a megabyte at a time.

Nearly every line of a long log is exactly one of these:

    iter 1234: loss 3.1416, time 169.24ms, mfu 12.06%
    step 1234: train loss 3.1416, val loss 3.2416
    saving checkpoint to out

They are parsed eight bytes at a time: each number and each fixed text of the line fits in a 64-bit word. A line that
differs by a single character is left to the plain reader.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Words = npt.NDArray[np.uint64]
Flags = npt.NDArray[np.bool_]

PAD = b" " * 8  # so that a word can be read around any byte of the block

_SHORTEST_EVALUATION = len("step 0: train loss 0.0000, val loss 0.0000")
_SAVING = b"saving checkpoint to "

# By the length of a number: a mask for its bytes in the word that ends with it, and zeros for the other bytes.
_KEEP = np.array([(1 << 64) - (1 << 64 - 8 * length) for length in range(9)], np.uint64)
_FILL = ~_KEEP & np.uint64(0x3030303030303030)


class RowBlock(NamedTuple):
    """Rows as columns; mfu is nan if none is printed."""

    line: Ints  # which line of the block
    iteration: Ints
    ms: Floats
    loss: Floats
    mfu: Floats

    def part(self, chosen: Flags | slice) -> RowBlock:
        """Select some of the rows."""
        return RowBlock(self.line[chosen], self.iteration[chosen], self.ms[chosen], self.loss[chosen], self.mfu[chosen])


class EvaluationBlock(NamedTuple):
    """Evaluations as columns."""

    line: Ints
    iteration: Ints
    train: Floats
    val: Floats

    def part(self, chosen: Flags | slice) -> EvaluationBlock:
        """Select some of the evaluations."""
        return EvaluationBlock(self.line[chosen], self.iteration[chosen], self.train[chosen], self.val[chosen])


class Text:
    """A block of complete lines: where they begin and end, and their colons and commas."""

    def __init__(self, block: bytes) -> None:
        self.data: Bytes = np.frombuffer(PAD + block + PAD, np.uint8)
        # The eight bytes from each position on, as one number; the first byte is the lowest.
        self.words: Words = np.ndarray((len(self.data) - 7,), np.dtype("<u8"), self.data, strides=(1,))
        self.ends: Ints = np.flatnonzero(self.data == ord("\n"))
        self.starts: Ints = np.empty_like(self.ends)
        self.starts[0], self.starts[1:] = len(PAD), self.ends[:-1] + 1
        self._colons, self._commas = np.flatnonzero(self.data == ord(":")), np.flatnonzero(self.data == ord(","))
        self._colon, self._comma = (
            np.searchsorted(self._colons, self.starts),
            np.searchsorted(self._commas, self.starts),
        )
        self.n_colons: Ints = np.diff(self._colon, append=len(self._colons))
        self.n_commas: Ints = np.diff(self._comma, append=len(self._commas))

    def __len__(self) -> int:
        return len(self.ends)

    def colon(self, line: Ints) -> Ints:
        """The position of the first colon of each line (it must have one)."""
        return self._colons[self._colon[line]]

    def comma(self, line: Ints, number: int = 0) -> Ints:
        """The position of a comma of each line (it must have one)."""
        return self._commas[self._comma[line] + number]

    def follows(self, at: Ints, text: bytes) -> Flags:
        """Whether the text, at most eight bytes, occurs at these positions."""
        mask = np.uint64((1 << 8 * len(text)) - 1)
        found: Flags = (self.words[at] & mask) == np.uint64(int.from_bytes(text, "little"))
        return found

    def whole(self, start: Ints, end: Ints) -> tuple[Ints, Flags]:
        """Integers of up to twelve digits; False if there is none."""
        word, length = self._digits(start, end)
        value, good = _number(word)
        long = np.flatnonzero(length > 8)
        if len(long):
            word, _ = self._digits(start[long], end[long] - 8)
            high, fits = _number(word)
            value[long] += 100_000_000 * high
            good[long] &= fits
        return value, good & (length >= 1) & (length <= 12)

    def decimal(self, start: Ints, end: Ints, decimals: int) -> tuple[Floats, Flags]:
        """Numbers with a fixed number of decimals: the point is replaced with a zero, which is removed afterwards."""
        word, length = self._digits(start, end)
        at = np.uint64(8 * (7 - decimals))
        point = (word >> at) & np.uint64(0xFF) == np.uint64(ord("."))
        value, good = _number(word ^ (np.uint64(ord(".") ^ ord("0")) << at))
        scale = 10.0**decimals
        whole = np.floor(value / (10 * scale))
        return (value - whole * (9 * scale)) / scale, good & point & (length >= decimals + 2) & (length <= 8)

    def _digits(self, start: Ints, end: Ints) -> tuple[Words, Ints]:
        """The characters of a number (up to eight), with leading zeros, and how many there are."""
        length = end - start
        return (self.words[end - 8] & _KEEP.take(length, mode="clip")) | _FILL.take(length, mode="clip"), length


def _number(word: Words) -> tuple[Ints, Flags]:
    """Eight digits as a number, in three multiplications; False if any is not a digit."""
    high, threes = np.uint64(0xF0F0F0F0F0F0F0F0), np.uint64(0x3030303030303030)
    good = ((word & high) == threes) & (((word + np.uint64(0x0606060606060606)) & high) == threes)
    value = word & np.uint64(0x0F0F0F0F0F0F0F0F)
    value = (value * np.uint64(2561)) >> np.uint64(8) & np.uint64(0x00FF00FF00FF00FF)
    value = (value * np.uint64(6553601)) >> np.uint64(16) & np.uint64(0x0000FFFF0000FFFF)
    value = (value * np.uint64(42949672960001)) >> np.uint64(32)
    return value.astype(np.int64), good


# --- rows ------------------------------------------------------------------------------------------------------------


def read_rows(text: Text, *, without_mfu: bool) -> RowBlock:
    """The lines that are exactly a row. If no row has had an mfu so far, rows without one count, too."""
    ending = text.data[text.ends - 1]
    found = _rows_with_mfu(text, np.flatnonzero((text.n_colons == 1) & (text.n_commas == 2) & (ending == ord("%"))))
    if without_mfu and not len(found.line):
        plain = np.flatnonzero((text.n_colons == 1) & (text.n_commas == 1) & (ending == ord("s")))
        found = _rows_without_mfu(text, plain)
    return found


def _rows_with_mfu(text: Text, line: Ints) -> RowBlock:
    second = text.comma(line, 1)
    mfu, good = text.decimal(second + 6, text.ends[line] - 1, 2)
    good &= text.follows(second - 2, b"ms, mfu ")
    return _rows(text, line, second - 2, mfu / 100, good)


def _rows_without_mfu(text: Text, line: Ints) -> RowBlock:
    time_end = text.ends[line] - 2
    return _rows(text, line, time_end, np.full(len(line), np.nan), text.follows(time_end, b"ms"))


def _rows(text: Text, line: Ints, time_end: Ints, mfu: Floats, good: Flags) -> RowBlock:
    start, colon, comma = text.starts[line], text.colon(line), text.comma(line)
    iteration, fits = text.whole(start + 5, colon)
    good &= fits
    loss, fits = text.decimal(colon + 7, comma, 4)
    good &= fits
    ms, fits = text.decimal(comma + 7, time_end, 2)
    good &= fits & (ms > 0)
    good &= text.follows(start, b"iter ") & text.follows(colon, b": loss ") & text.follows(comma, b", time ")
    found = RowBlock(line, iteration, ms, loss, mfu)
    return found if good.all() else found.part(good)


# --- evaluations and checkpoints -------------------------------------------------------------------------------------


def read_evaluations(text: Text) -> EvaluationBlock:
    """The lines that are exactly an evaluation."""
    line = np.flatnonzero((text.n_colons == 1) & (text.n_commas == 1) & (text.data[text.starts] == ord("s")))
    line = line[text.ends[line] - text.starts[line] >= _SHORTEST_EVALUATION]
    start, colon, comma, end = text.starts[line], text.colon(line), text.comma(line), text.ends[line]
    near = (colon <= start + 17) & (comma >= colon + 13) & (comma <= end - 17)  # so that what follows is in the line
    if not near.all():
        line, start, colon, comma, end = line[near], start[near], colon[near], comma[near], end[near]
    iteration, good = text.whole(start + 5, colon)
    train, fits = text.decimal(colon + 13, comma, 4)
    good &= fits
    val, fits = text.decimal(comma + 11, end, 4)
    good &= fits
    good &= text.follows(start, b"step ") & text.follows(colon, b": train ") & text.follows(colon + 8, b"loss ")
    good &= text.follows(comma, b", val lo") & text.follows(comma + 8, b"ss ")
    found = EvaluationBlock(line, iteration, train, val)
    return found if good.all() else found.part(good)


def read_saves(text: Text) -> Ints:
    """The lines that say where a checkpoint goes, except those with a colon or comma: they may also hold a row."""
    line = np.flatnonzero((text.n_colons == 0) & (text.n_commas == 0) & (text.data[text.starts] == ord("s")))
    line = line[text.ends[line] - text.starts[line] > len(_SAVING)]
    start = text.starts[line]
    path = text.data[start + len(_SAVING)]
    good = (path > ord(" ")) & (path < 127)
    for at in range(0, len(_SAVING), 8):
        good &= text.follows(start + at, _SAVING[at : at + 8])
    found: Ints = line[good]
    return found
