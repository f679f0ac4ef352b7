"""Which documents were there before: eight bytes for each, in memory and in a file that lets a killed run go on."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from nanopace.corpus.prepare.growing import open_growing
from nanopace.files import open_regular

SEEN_FILE: Final = "seen.bin"

Digests = npt.NDArray[np.uint64]


class Seen:
    """A set of digests, as sorted runs that are merged when a new one has outgrown half of the one before.

    Python's own set would take ten times the memory: most of a gigabyte for ten million documents.
    """

    def __init__(self, digests: Digests) -> None:
        self._runs = [np.sort(digests)] if len(digests) else []

    def first_times(self, digests: Digests) -> npt.NDArray[np.bool_]:
        """For each whether it is new, to the set and among those before it; from now on it is known."""
        values, places = np.unique(digests, return_index=True)
        known = np.zeros(len(values), dtype=np.bool_)
        for run in self._runs:
            known |= run[np.minimum(np.searchsorted(run, values), len(run) - 1)] == values
        new = np.zeros(len(digests), dtype=np.bool_)
        new[places[~known]] = True
        self._insert(values[~known])
        return new

    def _insert(self, run: Digests) -> None:
        if not len(run):
            return
        while self._runs and len(self._runs[-1]) < 2 * len(run):
            run = np.concatenate([self._runs.pop(), run])
            run.sort(kind="stable")  # which for numbers of this size merges what is sorted already
        self._runs.append(run)


class SeenFile:
    """The digests in the order in which they came."""

    def __init__(self, directory: Path, count: int) -> None:
        """What is behind the first `count` was written by a run that was killed before it said so, and is dropped."""
        self._path = directory / SEEN_FILE
        self._file = open_growing(self._path, 8 * count)
        self.count = count

    def read(self) -> Digests:
        with open_regular(self._path) as file:
            return np.frombuffer(file.read(8 * self.count), dtype="<u8").astype(np.uint64)

    def add(self, digests: Digests) -> None:
        self._file.write(digests.astype("<u8").tobytes())
        self.count += len(digests)

    def sync(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)
