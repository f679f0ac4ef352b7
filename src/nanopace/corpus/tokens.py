"""Files of tokens, memory-mapped: a split of a corpus is one long row of tokens over several files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from nanopace.corpus.manifest import Dtype

Tokens = npt.NDArray[np.unsignedinteger[Any]]


@dataclass(frozen=True, slots=True)
class Shard:
    """One file of tokens, little-endian as all of its kind are."""

    path: Path
    tokens: int
    dtype: Dtype
    offset: int = 0  # bytes in front of the first token
    sha256: str | None = None  # where somebody wrote it down
    max_id: int | None = None  # likewise

    def mapped(self) -> Tokens:
        """The tokens, read when they are looked at."""
        little_endian = np.dtype(self.dtype).newbyteorder("<")
        return np.memmap(self.path, dtype=little_endian, mode="r", offset=self.offset, shape=(self.tokens,))


class Split:
    """Training or validation tokens. A position counts through all of its shards, one after the other."""

    def __init__(self, shards: Iterable[Shard]) -> None:
        self.shards = tuple(shards)
        self.first = np.cumsum([0, *(shard.tokens for shard in self.shards)])  # each shard's first position; the end
        self.tokens = int(self.first[-1])
        self._mapped: list[Tokens | None] = [None] * len(self.shards)

    def gather(self, starts: npt.NDArray[np.int64], length: int, out: npt.NDArray[Any]) -> None:
        """Copy `length` tokens from each position into a row of `out`. None may reach into the next shard."""
        shards = np.searchsorted(self.first, starts, side="right") - 1
        assert (starts + length <= self.first[shards + 1]).all(), "a window lies in one shard"
        begins = starts - self.first[shards]
        for row, shard, begin in zip(out, shards.tolist(), begins.tolist(), strict=True):
            row[:length] = self._tokens(shard)[begin : begin + length]

    def _tokens(self, shard: int) -> Tokens:
        tokens = self._mapped[shard]
        if tokens is None:
            tokens = self._mapped[shard] = self.shards[shard].mapped().view(np.ndarray)  # a memmap is slow to slice
        return tokens
