"""How long a log may be silent before somebody should look.

Much longer than the usual gap between lines, including evaluations; the gaps are measured by our own clock. Before the
first evaluation, its length is unknown, so the limit is longer.
"""

from __future__ import annotations

from collections import deque

from nanopace.medians import median

LEAST_S = 60.0
BEFORE_EVALUATION_S = 600.0
USUAL = 20.0  # times the usual gap
LONGEST = 3.0  # times the longest
STOPPED_S = 5.0  # if a tick is later than this, this process itself was suspended


class Silence:
    def __init__(self, limit_s: float | None = None) -> None:
        """`limit_s`: the user's own limit."""
        self._fixed_s = limit_s
        self._gaps: deque[float] = deque(maxlen=200)
        self._last_s: float | None = None  # when the last line arrived
        self._ticked_s: float | None = None
        self._evaluated = False
        self.told = False

    def line(self, now: float) -> float | None:
        """Lines have arrived. Return how long it was silent before, if that had been reported."""
        gap = None if self._last_s is None else now - self._last_s
        self._last_s = self._ticked_s = now
        if gap is not None:
            self._gaps.append(gap)
        told, self.told = self.told, False
        return gap if told else None

    def found(self, last_s: float, now: float) -> None:
        """The log already existed, and its last line arrived at that time."""
        self._last_s, self._ticked_s = last_s, now

    def evaluation(self) -> None:
        """There has been an evaluation, or its cost does not show in the lines."""
        self._evaluated = True

    def check(self, now: float, row_s: float, evaluation_s: float) -> float | None:
        """Return how long it has been silent, the first time that it is too long. Call it about every second.

        `row_s` and `evaluation_s` are the times of these according to the log; 0 if unknown.
        """
        if self._ticked_s is not None and self._last_s is not None and now - self._ticked_s > STOPPED_S:
            self._last_s += now - self._ticked_s
        self._ticked_s = now
        if self._last_s is None or self.told or now - self._last_s <= self._limit_s(row_s, evaluation_s):
            return None
        self.told = True
        return now - self._last_s

    def _limit_s(self, row_s: float, evaluation_s: float) -> float:
        if self._fixed_s is not None:
            return self._fixed_s
        least = LEAST_S if self._evaluated else BEFORE_EVALUATION_S
        usual_s, longest_s = max(self.usual_s, row_s), max([*self._gaps, evaluation_s])
        return max(least, USUAL * usual_s, LONGEST * longest_s)

    @property
    def usual_s(self) -> float:
        return median(self._gaps) if self._gaps else 0.0

    def lasts_s(self, now: float) -> float:
        return 0.0 if self._last_s is None else now - self._last_s
