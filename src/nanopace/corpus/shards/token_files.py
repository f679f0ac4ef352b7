"""Token files: a split of a corpus is one long sequence of tokens over several files.

Windows are read, not memory-mapped. If someone truncates a mapped file, a signal kills the process; a short read is an
error that names the file. Every read is followed by a check that the file is still the one opened (fingerprint.py).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from nanopace.corpus.shards.fingerprint import FileFingerprint
from nanopace.corpus.shards.manifest import TOKEN_BYTES, Dtype
from nanopace.errors import InputError, reason_of

_SMALL = 256 << 20  # bytes that can be read and hashed within a second, before the first step
Tokens = npt.NDArray[np.unsignedinteger[Any]]


@dataclass(frozen=True, slots=True)
class Shard:
    """One token file, little-endian like all of them."""

    path: Path
    tokens: int
    dtype: Dtype
    offset: int = 0  # bytes before the first token
    sha256: str | None = None  # if recorded
    max_id: int | None = None  # likewise

    def read(self, begin: int, count: int) -> Tokens:
        """Read `count` tokens from position `begin`."""
        tokens = np.empty(count, dtype=np.dtype(self.dtype).newbyteorder("<"))
        view: Any = tokens.view(np.uint8)
        with _named(self.path), open(self.path, "rb", buffering=0) as file:
            file.seek(self.offset + begin * tokens.itemsize)
            if file.readinto(view) != len(view):
                raise _cut(self.path)
        return tokens


class Split:
    """Training or validation tokens. Positions count through all shards, one after another."""

    def __init__(self, shards: Iterable[Shard], *, verify: bool = False) -> None:
        """`verify`: compare a shard with its hash before returning its first window. Small splits always do."""
        self.shards = tuple(shards)
        self.first = np.cumsum([0, *(shard.tokens for shard in self.shards)])  # where each shard begins; the end
        self.tokens = int(self.first[-1])
        self.files = tuple((shard, FileFingerprint(shard.path, shard.sha256)) for shard in self.shards)
        self.is_small = self.bytes <= _SMALL
        self.verifies = verify or self.is_small
        self.vocab_size: int | None = None  # once known: all ids returned are below it

    @property
    def bytes(self) -> int:
        return sum(shard.tokens * TOKEN_BYTES[shard.dtype] for shard in self.shards)

    def take_fingerprints(self) -> None:
        """Remember the state of the files: they must not change from now on."""
        for _, fingerprint in self.files:
            fingerprint.take()

    def verify(self, stop: Callable[[], bool], part: tuple[int, int] = (0, 1)) -> None:
        """Compare all shards, or every n-th, with their hashes until `stop` returns True. A gigabyte takes a second."""
        for shard, fingerprint in self.files[part[0] :: part[1]]:
            with _named(shard.path):
                fingerprint.verify(stop)
            if stop():
                break

    def gather(self, starts: npt.NDArray[np.int64], length: int, out: npt.NDArray[Any]) -> None:
        """Copy `length` tokens from each position into a row of `out`. A window must not reach into the next shard."""
        shards = np.searchsorted(self.first, starts, side="right") - 1
        assert (starts + length <= self.first[shards + 1]).all(), "a window lies in one shard"
        begins = starts - self.first[shards]
        wanted: dict[int, list[tuple[npt.NDArray[Any], int]]] = {}
        for row, number, begin in zip(out, shards.tolist(), begins.tolist(), strict=True):
            wanted.setdefault(number, []).append((row, begin))
        for number, rows in wanted.items():
            shard, fingerprint = self.files[number]
            with _named(shard.path):
                if self.verifies:
                    fingerprint.verify()
                _read(shard, fingerprint, rows, length)
        if self.vocab_size is not None and len(out) and (largest := int(out[:, :length].max())) >= self.vocab_size:
            raise InputError(
                "{path}: contains the id {id}, but the vocabulary ends at {last}: its manifest is wrong; recreate "
                "the corpus with nanopace prepare --restart",
                path=self.shards[0].path.parent,
                id=largest,
                last=self.vocab_size - 1,
            )


def _read(
    shard: Shard, fingerprint: FileFingerprint, rows: Iterable[tuple[npt.NDArray[Any], int]], length: int
) -> None:
    """Read a window into each row, from its position in the shard."""
    tokens = np.empty(length, dtype=np.dtype(shard.dtype).newbyteorder("<"))
    view: Any = tokens.view(np.uint8)  # before Python 3.12, numpy's types do not say that it is a buffer
    with open(shard.path, "rb", buffering=0) as file:
        fingerprint.check(os.fstat(file.fileno()))
        for row, begin in rows:
            file.seek(shard.offset + begin * tokens.itemsize)
            if file.readinto(view) != len(view):
                fingerprint.check(os.fstat(file.fileno()))
                raise _cut(shard.path)
            row[:length] = tokens
        fingerprint.check(os.fstat(file.fileno()))


def _cut(path: Path) -> InputError:
    return InputError("{path}: ends before its last token: it was truncated while being read; restore it", path=path)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Turn an OSError into an error that names the file."""
    try:
        yield
    except OSError as error:
        raise InputError(
            "{path}: can no longer be read: {reason}; restore it, then continue with --init_from=resume",
            path=path,
            reason=reason_of(error),
        ) from None
