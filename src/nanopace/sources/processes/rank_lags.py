"""Which of several ranks made the others wait, over all steps of a run."""

from __future__ import annotations

import math
from array import array

from nanopace.incidents import RankLag
from nanopace.medians import upper_median


class RankLags:
    """Takes the slowest rank of every step."""

    def __init__(self, world_size: int | None = None) -> None:
        self.world_size = world_size  # with another number of processes, the ranks are different ones
        self._steps: dict[int, int] = {}
        self._lags: dict[int, array[float]] = {}

    def add(self, rank: int, lag: float | None) -> None:
        self._steps[rank] = self._steps.get(rank, 0) + 1
        if lag is not None and math.isfinite(lag):
            self._lags.setdefault(rank, array("d")).append(lag)

    def all(self) -> tuple[RankLag, ...]:
        """The lags, with the most frequently slowest rank first."""
        ranks = sorted(self._steps, key=lambda rank: (-self._steps[rank], rank))
        return tuple(RankLag(rank, self._steps[rank], self._median_lag(rank)) for rank in ranks)

    def _median_lag(self, rank: int) -> float | None:
        lags = self._lags.get(rank)
        return upper_median(lags) if lags else None
