"""A training's progress bar: which steps were logged, and when each step ended.

Whenever something is logged, tqdm erases the bar, prints the text and redraws the bar. So a bar that follows blanks was
logged, once for each dict, even if the dict comes much later because standard output was buffered. Where a terminal has
removed the blanks, a step whose bar appears twice in succession was logged.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque

from nanopace.sources.formats.hugging_face.console_lines import Bar

_MOST_POINTS = 200_000
_FORGOTTEN = 20  # steps after which a bar's estimate of what a step takes no longer contains an earlier pause
_FEWEST_GAPS = 3  # between bars, that show the same
_MUCH_LONGER = 2.0  # than the estimate
_MOST_GAPS = 1000


class Progress:
    """One bar, from its first appearance on."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.step = -1
        self.elapsed_s = 0.0
        self.painted_again: deque[int] = deque()  # logged steps whose dict is not known yet
        self.last_painted_again = 0
        self.counts = False  # it is painted again exactly once for each dict
        self.first = -1  # step that it shows
        self._erased = self._any_erased = False  # this bar, or any
        self._other_shown = False  # another bar, of an evaluation, is shown below this one
        self._steps: list[int] = []
        self._ends_s: list[float] = []
        self._gaps: deque[tuple[float, float]] = deque(maxlen=_MOST_GAPS)  # seconds per step: estimated, and passed
        self._evaluated_s = 0.0  # since the last bar

    @property
    def hides_time(self) -> tuple[float, float] | None:
        """What a step takes by the bar's estimate, and what passed per step between bars, if that is much more: then
        something other than training takes most of the time, between all rows."""
        gaps = sorted(self._gaps, key=lambda gap: gap[1] / gap[0])
        middle = gaps[(len(gaps) - 1) // 2] if len(gaps) >= _FEWEST_GAPS else (1.0, 1.0)
        return middle if middle[1] > _MUCH_LONGER * middle[0] else None

    @property
    def begins_late(self) -> bool:
        """Whether the beginning of the log is missing."""
        return self.first > 1

    def evaluated(self, seconds: float) -> None:
        """An evaluation took that long, which is no step's time."""
        self._evaluated_s += seconds

    @property
    def expects_dicts(self) -> bool:
        return self.step < self.total or bool(self.painted_again)

    @property
    def logged_first(self) -> bool:
        """Something was logged before the first step."""
        return 0 in self.painted_again

    def begins_anew(self, bar: Bar) -> bool:
        return bar.step < self.step or bar.elapsed_s < self.elapsed_s

    def erase(self, times: int) -> None:
        """Bars were erased: all of them when something is logged, but only that of an evaluation when it ends."""
        self._erased |= times > self._other_shown
        self._any_erased |= times > 0
        self._other_shown &= times == 0

    def below(self) -> None:
        """Another bar was painted."""
        self._other_shown = True

    def add(self, bar: Bar) -> None:
        if self.first < 0:
            self.first = bar.step
        again = bar.step == self.step
        logged = self._erased or (again and self._any_erased)
        self.counts |= logged
        if logged or (again and not self.counts and bar.step > self.last_painted_again):
            self.painted_again.append(bar.step)
            self.last_painted_again = bar.step
        self._erased = self._any_erased = False
        if bar.step > self.step or bar.elapsed_s > self.elapsed_s:  # the same step later: it was evaluated
            self._compare(bar)
            self._steps.append(bar.step)
            self._ends_s.append(bar.elapsed_s)
            if len(self._steps) > _MOST_POINTS:
                del self._steps[::2], self._ends_s[::2]
        self.step, self.elapsed_s = bar.step, bar.elapsed_s

    def _compare(self, bar: Bar) -> None:
        """The bar's estimate with the time since the last one."""
        steps, passed_s = bar.step - max(0, self.step), bar.elapsed_s - self.elapsed_s
        left_s = max(0.0, passed_s - self._evaluated_s)
        self._evaluated_s = max(0.0, self._evaluated_s - passed_s)
        if steps >= _FORGOTTEN and bar.step_s:
            self._gaps.append((bar.step_s, left_s / steps))

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
