"""A training's progress bar: which steps were logged, and when each step ended.

Whenever something is logged, tqdm erases the bar, prints the text and redraws the bar. So a step whose bar follows
blanks, or appears twice in succession, was logged. This also shows the step of a dict that comes late, in a block of
many, because standard output was a pipe.
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
        self.painted_again: deque[int] = deque()  # logged steps whose dict is not known yet
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
        """When a step ended, interpolated between bars; None if the bar had not come that far."""
        at = bisect_left(self._steps, step)
        if at == len(self._steps):
            return None
        if self._steps[at] == step:
            return self._ends_s[at]
        before, before_s = (self._steps[at - 1], self._ends_s[at - 1]) if at else (0, 0.0)
        share = (step - before) / (self._steps[at] - before)
        return before_s + share * (self._ends_s[at] - before_s)

    def forget(self, step: int) -> None:
        """Forget everything before a step, except the bar just before it."""
        at = bisect_left(self._steps, step) - 1
        if at > 1000:
            del self._steps[:at], self._ends_s[:at]
