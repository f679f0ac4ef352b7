"""Watches the loss: is it finite, and is it a spike?

A step's loss is compared with the level of the few steps before it. What counts is how many standard deviations it lies
further above that level than earlier steps usually did. The level follows the trend, because a falling loss is neither
noise nor a spike. Level and deviation are medians, so that one spike does not hide the next.

Nothing waits for a loss, so all this is known one or two steps later (step_reports.py). By then the device itself has
long skipped the update of a step that is not finite (stepper.py).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

SPIKE_Z = 6.0  # standard deviations
STREAK = 3  # steps in a row that are not finite, after which training rolls back
SCALE_STREAK = 24  # float16: this many halvings bring any scale below one, so the scale is not the cause
_WINDOW = 100  # losses for the deviation
_LEVEL = 11  # losses for the level: few, because it moves
_LEAST = 20  # losses in the window before there is a verdict
_FINEST = 1e-3  # times the level: a smaller deviation is rounding, or memorised text
_TINY = 1e-12  # avoids division by zero


class NotFiniteError(Exception):
    """The loop cannot continue: too many steps in a row were not finite."""

    def __init__(self, failed_at: int) -> None:
        super().__init__(failed_at)
        self.failed_at = failed_at  # the last of them


@dataclass(frozen=True, slots=True)
class StepLoss:
    """A step's loss and the norm of its gradient."""

    iteration: int
    loss: float
    grad_norm: float


@dataclass(frozen=True, slots=True)
class Verdict:
    skipped: bool = False
    first: bool = False  # of a streak of skipped steps
    spike: float | None = None  # its height in standard deviations; None if it is not a spike


class Watch:
    """Takes every step's loss and norm, in order."""

    def __init__(self, *, scaled: bool = False) -> None:
        """`scaled`: losses are scaled for float16. There, a gradient that is not finite mostly means that the scale is
        too high: GradScaler skips that step and lowers the scale, which is not a fault."""
        self._scaled = scaled
        self._losses: deque[float] = deque(maxlen=_LEVEL)
        self._above: deque[float] = deque(maxlen=_WINDOW)  # how far each was above its level
        self._overflows = 0  # in a row
        self.last: deque[StepLoss] = deque(maxlen=_WINDOW)
        self.skipped = 0  # in total
        self.streak = 0  # in a row, up to the last step
        self.failed_at: int | None = None  # the step that made the streak too long

    @property
    def in_doubt(self) -> bool:
        """Whether training may have to roll back."""
        return self.streak > 0 or self.failed_at is not None

    def judge(self, iteration: int, loss: float, grad_norm: float) -> Verdict:
        self.last.append(StepLoss(iteration, loss, grad_norm))
        if self._is_fault(loss, grad_norm):
            self.skipped += 1
            self.streak += 1
            if self.streak == STREAK and self.failed_at is None:
                self.failed_at = iteration
            return Verdict(skipped=True, first=self.streak == 1)
        self.streak = 0
        return Verdict(spike=self._spike(loss))

    def _spike(self, loss: float) -> float | None:
        """How many standard deviations it is above the level; None if it is not a spike. This takes microseconds, even
        fewer for the half of all losses that are below their level."""
        spike: float | None = None
        if len(self._losses) == _LEVEL:
            level = median(self._losses)
            above = loss - level
            if above > 0 and len(self._above) >= _LEAST:
                middle = median(self._above)
                deviation = max(_deviation(self._above, middle), _FINEST * abs(level), _TINY)
                spike = (above - min(0.0, middle)) / deviation
            self._above.append(above)
        self._losses.append(loss)
        return spike if spike is not None and spike >= SPIKE_Z else None

    def _is_fault(self, loss: float, grad_norm: float) -> bool:
        if not math.isfinite(loss):
            return True
        overflow = not math.isfinite(grad_norm)
        self._overflows = self._overflows + 1 if overflow else 0
        return overflow and (not self._scaled or self._overflows > SCALE_STREAK)


def _deviation(values: Sequence[float], middle: float) -> float:
    """The median absolute deviation from the median, scaled to a standard deviation."""
    return 1.4826 * median([abs(value - middle) for value in values])
