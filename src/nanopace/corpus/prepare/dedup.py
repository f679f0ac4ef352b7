"""Remembers which documents have occurred, with eight bytes of memory each."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Digests = npt.NDArray[np.uint64]


class DigestSet:
    """A set of digests, stored as sorted runs. A run is merged into the one before it once it is more than half as
    large.

    Python's set would take ten times the memory: most of a gigabyte for ten million documents.
    """

    def __init__(self) -> None:
        self._runs: list[Digests] = []

    def add(self, digests: Digests) -> npt.NDArray[np.bool_]:
        """Add the digests. Return for each whether it is new: neither in the set nor earlier in `digests`."""
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
            run.sort(kind="stable")  # for integers of this size, this merges sorted runs
        self._runs.append(run)
