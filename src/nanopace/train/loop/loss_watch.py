"""Watches the loss: is it finite, and does it stand out?

A step's loss lies above or below the level of the few before it, and stands out by how many standard deviations it does
so more than the steps before did. Comparing with the last few takes the trend away: the loss falls, fast at first, and
that is neither noise nor a spike. Level and deviation are medians, so that a spike does not hide the next one.

Nobody waits for a loss, so all this is known one or two steps later (step_reports.py). The update of a step that is not
finite was skipped long before that, by the device itself (stepper.py).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

SPIKE_Z = 6.0  # standard deviations
STREAK = 3  # steps in a row that are not finite, after which training goes back
SCALE_STREAK = 24  # float16: so many halvings bring any scale below one, and then it is not the scale
_WINDOW = 100  # losses that the deviation is of
_LEVEL = 11  # losses that the level is of: few, as it moves
_LEAST = 20  # of the window, before anything is said
_FINEST = 1e-3  # of the level: a deviation below it is rounding, or a text learned by heart
_TINY = 1e-12  # so that nothing is divided by zero


class NotFiniteError(Exception):
    """The loop cannot go on from here: too many steps in a row were not finite."""

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
    spike: float | None = None  # by how many standard deviations it stands out; only where it does


class Watch:
    """Takes every step's loss and norm, in order."""

    def __init__(self, *, scaled: bool = False) -> None:
        """`scaled`: losses are scaled for float16, where a gradient that is not finite mostly means too high a scale:
        GradScaler leaves that step out and lowers the scale, and that is no fault."""
        self._scaled = scaled
        self._losses: deque[float] = deque(maxlen=_LEVEL)
        self._above: deque[float] = deque(maxlen=_WINDOW)  # by how much each lay above the level of its time
        self._overflows = 0  # in a row
        self.last: deque[StepLoss] = deque(maxlen=_WINDOW)
        self.skipped = 0  # in all
        self.streak = 0  # in a row, up to the last one
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
        """By how many standard deviations it stands out, if it does. As half of all losses lie below their level,
        this takes some microseconds for them, and some more for the others."""
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
    """The median absolute one from their median, as a standard deviation."""
    return 1.4826 * median([abs(value - middle) for value in values])
