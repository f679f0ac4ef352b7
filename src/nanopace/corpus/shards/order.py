"""Which windows a step trains on, as a pure function of the seed: there is no state to save or lose.

Every epoch visits all windows once, in a new order. In each epoch, the windows are shifted, so that the model does not
see the same ones again. With `documents`, they start where documents start, and are the same in every epoch.

An epoch is drawn from Philox, keyed with seed and epoch. Only its raw stream is used, which is the same on every
machine and in every numpy release; numpy's shuffle may change between releases.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from nanopace.corpus.shards.scan import positions_of
from nanopace.corpus.shards.token_files import Shard, Split
from nanopace.errors import InputError

Positions = npt.NDArray[np.int64]

_WORD = (1 << 64) - 1
_DOCUMENTS_AT_ONCE = 1 << 16
_DRAWN_AT_ONCE = 1 << 14


class Order:
    """An endless sequence of windows without replacement. A window is block_size tokens plus the one that follows."""

    windows: Final[int]  # per epoch

    def __init__(
        self, split: Split, block_size: int, seed: int, *, documents: bool = False, end_of_text: int | None = None
    ) -> None:
        assert block_size > 0, "a window has tokens"
        self._seed = seed & _WORD
        self._places: _Aligned | _Shifting
        if documents:
            self._places = _Aligned(split, block_size, end_of_text)
        else:
            self._places = _Shifting(split, block_size)
        self.windows = self._places.windows
        assert self.windows > 0, "a corpus shorter than a window is refused before"
        self._drawn: tuple[int, _Epoch] | None = None

    def starts(self, first: int, count: int) -> Positions:
        """The positions of windows number first, first + 1, ... in the endless sequence."""
        assert first >= 0, "the order has a beginning"
        assert count >= 0, "windows are counted up"
        found = np.empty(count, dtype=np.int64)
        done = 0
        while done < count:
            number, begin = divmod(first + done, self.windows)
            epoch = self._epoch(number)
            part = epoch.permutation[begin : begin + count - done]
            found[done : done + len(part)] = self._places.at(part, epoch.draws)
            done += len(part)
        return found

    def _epoch(self, number: int) -> _Epoch:
        drawn = self._drawn
        if drawn is None or drawn[0] != number:
            drawn = self._drawn = number, _Epoch(self._seed, number, self.windows, self._places.draws)
        return drawn[1]


class _Epoch:
    """One pass over the windows: their permutation, and the random numbers that shift them."""

    def __init__(self, seed: int, number: int, windows: int, draws: int) -> None:
        stream = np.random.Philox(key=np.array([seed, number], dtype=np.uint64))
        self.draws = _drawn(stream, draws)
        self.permutation = _permutation(_drawn(stream, (windows + 1) // 2).view("<u4")[:windows])


def _drawn(stream: np.random.Philox, count: int) -> npt.NDArray[np.uint64]:
    """The next numbers of the stream, drawn in pieces: numpy blocks all other threads while it draws."""
    numbers = np.empty(count, dtype="<u8")
    for begin in range(0, count, _DRAWN_AT_ONCE):
        piece = numbers[begin : begin + _DRAWN_AT_ONCE]
        piece[:] = stream.random_raw(len(piece))
    return numbers


def _permutation(random: npt.NDArray[np.uint32]) -> npt.NDArray[np.signedinteger]:
    """A permutation of range(len(random)): random numbers are sorted, each with its index in its lower half.

    So no two numbers are equal, the result does not depend on the sorting algorithm, and numpy sorts plain integers
    fastest.
    """
    assert len(random) <= 1 << 32, "an index has 32 bits"
    keys = random.astype(np.uint64)
    keys <<= np.uint64(32)
    keys |= np.arange(len(random), dtype=np.uint64)
    keys.sort()
    keys &= np.uint64((1 << 32) - 1)
    return keys.astype(np.int32 if len(random) <= 1 << 31 else np.int64)


class _Shifting:
    """Consecutive windows in each shard, from an offset near its beginning that is drawn for each epoch.

    The number of windows is what fits at any offset below block_size, so it is the same in all epochs. The offset is
    drawn from all those that leave room for that many, so no token is left out in every epoch.
    """

    def __init__(self, split: Split, block_size: int) -> None:
        tokens = np.array([shard.tokens for shard in split.shards], dtype=np.int64)
        fit = np.maximum(tokens // block_size - 1, tokens > block_size)  # a short shard has one, if it is long enough
        self._block_size = block_size
        self._first = split.first[:-1].astype(np.int64)
        self._shifts = (tokens - fit * block_size).astype(np.uint64)
        self._ends = np.cumsum(fit)
        self._before = self._ends - fit
        self.windows = int(self._ends[-1])
        self.draws = len(tokens)

    def at(self, windows: npt.NDArray[np.signedinteger], draws: npt.NDArray[np.uint64]) -> Positions:
        shard = np.searchsorted(self._ends, windows, side="right")
        shift = (draws % self._shifts).astype(np.int64)
        inside = (windows - self._before[shard]) * self._block_size
        positions: Positions = self._first[shard] + shift[shard] + inside
        return positions


class _Aligned:
    """Windows that start at the start of a document, or a multiple of block_size after that."""

    draws = 0

    def __init__(self, split: Split, block_size: int, end_of_text: int | None) -> None:
        if end_of_text is None:
            raise InputError(
                "windows cannot start at documents: this corpus's tokenizer has no token between documents"
            )
        self._positions = np.concatenate(
            [
                first + _aligned(shard, block_size, end_of_text)
                for first, shard in zip(split.first.tolist(), split.shards, strict=False)
            ]
        )
        self.windows = len(self._positions)

    def at(self, windows: npt.NDArray[np.signedinteger], _draws: npt.NDArray[np.uint64]) -> Positions:
        positions: Positions = self._positions[windows]
        return positions


def _aligned(shard: Shard, block_size: int, end_of_text: int) -> Positions:
    """Where windows start in one shard: at its beginning, then where the previous one ended.

    If a document is longer than a window, the next window continues inside it. If a window cuts a document, the next
    one starts at that document's start: some tokens are seen twice, and none are lost.
    """
    documents = positions_of(shard, end_of_text)
    if not len(documents) or documents[0]:
        documents = np.concatenate([np.zeros(1, dtype=np.int64), documents])
    lengths = np.diff(documents, append=shard.tokens)
    windows = -(-lengths // block_size)
    following = np.searchsorted(documents, documents + windows * block_size, side="right") - 1
    chosen = _followed(following)
    inside = np.arange(windows[chosen].sum()) - np.repeat(np.cumsum(windows[chosen]) - windows[chosen], windows[chosen])
    positions: Positions = np.repeat(documents[chosen], windows[chosen]) + inside * block_size
    return positions[positions + block_size < shard.tokens]


def _followed(following: Positions) -> Positions:
    """0, following[0], following[following[0]], ... to the end, in pieces: Python's integers take much memory."""
    chosen: list[Positions] = []
    at = 0
    while at < len(following):
        begin = at
        piece = following[begin : begin + _DOCUMENTS_AT_ONCE].tolist()
        steps = []
        while at - begin < len(piece):
            steps.append(at)
            after = piece[at - begin]
            at = after if after > at else len(following)  # nothing follows the last document
        chosen.append(np.array(steps, dtype=np.int64))
    return np.concatenate(chosen)
