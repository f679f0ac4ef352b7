"""Scans complete token files, in pieces and on several cores, as fast as the disk or the memory allows."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from nanopace.corpus.shards.token_files import Shard, Tokens

_PIECE = 1 << 22  # tokens: a few pieces fit in memory at once
_THREADS = min(8, os.cpu_count() or 1)

T = TypeVar("T")


def first_beyond(shard: Shard, vocab_size: int) -> tuple[int, int] | None:
    """Position and id of the first token that is not in the vocabulary."""

    def look(piece: Tokens, begin: int) -> tuple[int, int] | None:
        if int(piece.max()) < vocab_size:
            return None
        place = int(np.argmax(piece >= vocab_size))
        return begin + place, int(piece[place])

    return next((found for found in _each_piece(shard, look) if found is not None), None)


def positions_of(shard: Shard, token: int) -> npt.NDArray[np.int64]:
    """The positions of a token in a shard."""
    return np.concatenate(list(_each_piece(shard, lambda piece, begin: np.flatnonzero(piece == token) + begin)))


def _each_piece(shard: Shard, look: Callable[[Tokens, int], T]) -> Iterator[T]:
    """Apply `look` to each piece and its position, in order. Other threads run while one reads or computes."""

    def seen(begin: int) -> T:
        return look(shard.read(begin, min(_PIECE, shard.tokens - begin)), begin)

    with ThreadPoolExecutor(_THREADS) as pool:
        yield from pool.map(seen, range(0, shard.tokens, _PIECE))
