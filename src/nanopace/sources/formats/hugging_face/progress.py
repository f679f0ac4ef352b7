"""A training's progress bar: which steps were logged, and when each step ended.

Whenever something is logged, tqdm wipes the bar, prints the text and paints the bar again. So a step that is painted
behind blanks, or twice in a row, was logged. That also tells to which step a dict belongs that comes late, in a block
of many, because standard output was a pipe.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque

from nanopace.sources.formats.hugging_face.console_lines import Bar

_MOST_POINTS = 200_000


class Progress:
    """One bar, from its first appearance on."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.step = -1
        self.elapsed_s = 0.0
        self.painted_again: deque[int] = deque()  # steps that were logged, and no dict is known to be of
        self.last_painted_again = 0
        self._steps: list[int] = []
        self._ends_s: list[float] = []

    def begins_anew(self, bar: Bar) -> bool:
        return bar.step < self.step or bar.elapsed_s < self.elapsed_s

    def add(self, bar: Bar, *, wiped: bool) -> None:
        if (wiped or bar.step == self.step) and bar.step > self.last_painted_again:
            self.painted_again.append(bar.step)
            self.last_painted_again = bar.step
        if bar.step > self.step or bar.elapsed_s > self.elapsed_s:  # the same step later: it was evaluated
            self._steps.append(bar.step)
            self._ends_s.append(bar.elapsed_s)
            if len(self._steps) > _MOST_POINTS:
                del self._steps[::2], self._ends_s[::2]
        self.step, self.elapsed_s = bar.step, bar.elapsed_s

    def ended_s(self, step: int) -> float | None:
        """When a step ended, between the bars around it; None where the bar had not come so far."""
        at = bisect_left(self._steps, step)
        if at == len(self._steps):
            return None
        if self._steps[at] == step:
            return self._ends_s[at]
        before, before_s = (self._steps[at - 1], self._ends_s[at - 1]) if at else (0, 0.0)
        share = (step - before) / (self._steps[at] - before)
        return before_s + share * (self._ends_s[at] - before_s)

    def forget(self, step: int) -> None:
        """What was before a step is no longer needed, but for the bar just before it."""
        at = bisect_left(self._steps, step) - 1
        if at > 1000:
            del self._steps[:at], self._ends_s[:at]
