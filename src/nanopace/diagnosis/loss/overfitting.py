"""Over-fitting: whether validation turned up while training went on falling, and whether the gap between them grows."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from nanopace.diagnosis.loss.trend import curve_noise, slope, step_noise
from nanopace.diagnosis.result import Loss
from nanopace.run import Evaluation

_RISING = 3  # the last evaluations, all of which have to be above the best: one or two are an accident
_CLEAR = 3.0  # standard deviations that a change has to be beyond
_APART = 4.0  # standard deviations that validation, and the gap, have to be above what they were at the best
_LARGE = 0.01  # of the loss: what a change has to be beyond where too few evaluations tell their noise
_SMALLEST = 0.003  # of the loss: nobody calls less a rise, however quiet the evaluations are
_MATERIAL = 0.03  # of the loss: a gap that grew by this is worth a word, and a rise of this is one
_LARGEST = 1e6  # a loss beyond this has diverged, even if it is still printed as a number


def is_sane(loss: float) -> bool:
    """Neither nan nor far beyond what any model has."""
    return abs(loss) <= _LARGEST


class Best(NamedTuple):
    """The lowest loss. Where many evaluations stand as one, the save is found by that one's iteration."""

    val: float
    iteration: int
    stands_at: int


def best_of(evaluations: Sequence[Evaluation]) -> Best | None:
    """Of those with the same loss the first."""
    vals = ((*each.best, each.iteration) for each in evaluations)
    return min(
        (Best(val, at, stands_at) for at, val, stands_at in vals if val is not None and is_sane(val)), default=None
    )


class _Pair(NamedTuple):
    """A training loss, and the validation loss that it can be compared with."""

    iteration: int
    train: float
    val: float

    @property
    def gap(self) -> float:
        return self.val - self.train


class Gaps(NamedTuple):
    """Validation less training loss: the last gap as printed, and how it changed, measured the same way throughout."""

    last_train: float | None = None
    last_train_steps: int | None = None  # that it is the mean of
    last: float | None = None
    is_open: bool = False  # whether validation is above training
    trend: float | None = None  # over the last half of the run
    error: float = math.inf  # standard error of the trend, more where few points tell it
    train_rose: float = 0.0  # by how much the last training losses are above those up to the best validation loss ...
    val_rose: float = 0.0  # ... the last validation loss above that best one ...
    rose: float = 0.0  # ... and the gap above what it was ...
    rose_error: float = math.inf  # ... with its standard error

    @classmethod
    def of(cls, evaluations: Sequence[Evaluation], best: Best | None) -> Gaps:
        known = [
            (each, each.train, each.val)
            for each in evaluations
            if each.train is not None and each.val is not None and is_sane(each.train) and is_sane(each.val)
        ]
        if not known or best is None:
            return cls()
        last, train, val = known[-1]
        by_steps = last.train_steps is not None
        pairs = list(_comparable_pairs(evaluations, by_steps=by_steps))
        gaps = cls(train, last.train_steps, val - train, bool(pairs) and pairs[-1].gap > 0)
        later = [pair for pair in pairs if pair.iteration >= last.iteration / 2]
        line = slope([pair.iteration for pair in later], [pair.gap for pair in later])
        if line is not None:
            span = later[-1].iteration - later[0].iteration
            unsure = 1 + 6 / math.pow(len(later) - 2, 1.5)  # about as Student's t: few points tell their scatter badly
            gaps = gaps._replace(trend=line[0] * span, error=line[1] * span * unsure)
        return gaps._since_best(best, pairs, by_steps=by_steps)

    def _since_best(self, best: Best, pairs: Sequence[_Pair], *, by_steps: bool) -> Gaps:
        """What rose since the best validation loss; the gap's error is by its own scatter."""
        until = [pair for pair in pairs if pair.iteration <= best.stands_at][-_RISING:]
        since = [pair for pair in pairs if pair.iteration > best.stands_at][-_RISING:]
        if not until or not since:
            return self
        noise = step_noise([pair.gap for pair in pairs]) if len(pairs) > _RISING else math.inf
        return self._replace(
            train_rose=_mean([pair.train for pair in since]) - until[-1].train,
            val_rose=since[-1].val - (until[-1].val if by_steps else best.val),
            rose=_mean([pair.gap for pair in since]) - _mean([pair.gap for pair in until]),
            rose_error=noise * math.sqrt(1 / len(until) + 1 / len(since)),
        )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _comparable_pairs(evaluations: Sequence[Evaluation], *, by_steps: bool) -> Iterator[_Pair]:
    """Losses whose gap can be followed: all of one kind, a training loss that lags beside a validation loss that does.

    The mean loss of the steps since the last evaluation belongs to no model that was evaluated, so it is compared with
    the mean of the validation losses at both ends of these steps. Otherwise the gap would grow just because the lag
    shrinks, and a run that diverges would look like one that over-fits. Dropout raises such a mean as well.
    """
    before: float | None = None
    for each in evaluations:
        if each.val is None or not is_sane(each.val):
            continue
        val = each.val if not by_steps else None if before is None else (before + each.val) / 2
        same_kind = (each.train_steps is not None) == by_steps
        if same_kind and val is not None and each.train is not None and is_sane(each.train):
            yield _Pair(each.iteration, each.train, val)
        before = each.val


def beyond_noise(curve: Sequence[tuple[int, float]], best: Best, error: float | None) -> float:
    """What a validation loss has to be above the best to be clearly worse; where the noise is unknown, a lot."""
    noise = error or noise_of(curve)
    if noise is None:
        return _LARGE * abs(best.val)
    unsure = 1 + 6 / math.pow(max(1, len(curve) // 2), 1.5)  # the noise of few evaluations is itself known badly
    sure = min(_APART * unsure * noise, _MATERIAL * abs(best.val))
    return max(_CLEAR * noise, sure, _SMALLEST * abs(best.val))


def turned_up(curve: Sequence[tuple[int, float]], best: Best | None, beyond: float) -> bool:
    """Whether validation has clearly left its best: each of the last evaluations is above it, and their mean above that
    of the best and the lower one beside it. The lowest of many evaluations is low by luck, too."""
    if best is None:
        return False
    recent = [val for iteration, val in curve if iteration > best.iteration][-_RISING:]
    place = bisect_left(curve, (best.iteration, -math.inf))
    around = sorted(val for _, val in curve[max(0, place - 1) : place + 2])[:2]
    return (
        len(recent) == _RISING
        and min(recent) > best.val + beyond
        and sum(recent) / len(recent) > sum(around) / len(around) + beyond
    )


def growth_of(loss: Loss, gaps: Gaps, turned: bool, beyond: float) -> str | None:
    """The finding about a gap that grows. It is over-fitting only if validation has turned up while training has not:
    a restart, or a run that diverges, raises both. While validation still falls, a growing gap is what every small
    dataset shows. With dropout, the mean of the steps may stay above validation, and validation still turns up."""
    if loss.last_val is None or loss.best_val is None or not (gaps.is_open or (turned and gaps.last_train_steps)):
        return None
    if turned:
        apart = gaps.rose > _APART * gaps.rose_error and gaps.train_rose < gaps.val_rose / 2
        return "overfitting" if apart else None
    if gaps.trend is None or loss.last_val > loss.best_val + beyond:
        return None
    return "gap_grows" if gaps.trend > max(_MATERIAL * loss.last_val, _CLEAR * gaps.error) else None


def noise_of(curve: Sequence[tuple[int, float]]) -> float | None:
    """The standard deviation of an evaluation, without the untrained model's."""
    points = [(iteration, val) for iteration, val in curve if iteration > 0]
    return curve_noise([iteration for iteration, _ in points], [val for _, val in points])
