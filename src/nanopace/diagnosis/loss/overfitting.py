"""Overfitting: whether the validation loss turned up while the training loss kept falling, and whether the gap
grows."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from operator import lt
from typing import NamedTuple

from nanopace.diagnosis.loss.trend import curve_noise, slope, step_noise
from nanopace.diagnosis.result import Loss
from nanopace.run import Evaluation

_RISING = 3  # the last evaluations must all be above the best: one or two may be chance
_RISES = 5  # times in a row after the best: fewer happen by chance
_CLEAR = 3.0  # standard deviations that a change must exceed
_APART = 4.0  # standard deviations by which validation loss and gap must exceed their values at the best
_LARGE = 0.01  # of the loss: a change must exceed this if there are too few evaluations to estimate the noise
_SMALLEST = 0.003  # of the loss: a smaller rise is not worth reporting, however low the noise
_MATERIAL = 0.03  # of the loss: enough for a growing gap to be reported, and for a rise to count
_LARGEST = 1e6  # a loss beyond this has diverged, even if it is printed as a number


def is_sane(loss: float) -> bool:
    """Whether a loss is a number that a model could have."""
    return abs(loss) <= _LARGEST


class Best(NamedTuple):
    """The lowest loss. If one evaluation stands for many, its own iteration tells whether it was saved."""

    val: float
    iteration: int
    stands_at: int


def best_of(evaluations: Sequence[Evaluation]) -> Best | None:
    """The lowest loss; the first one if several are equal."""
    vals = ((*each.best, each.iteration) for each in evaluations)
    return min(
        (Best(val, at, stands_at) for at, val, stands_at in vals if val is not None and is_sane(val)), default=None
    )


class _Pair(NamedTuple):
    """A training loss and the validation loss it is comparable with."""

    iteration: int
    train: float
    val: float

    @property
    def gap(self) -> float:
        return self.val - self.train


class Gaps(NamedTuple):
    """Validation minus training loss: the last gap as printed, and its change, measured consistently."""

    last_train: float | None = None
    last_train_steps: int | None = None  # if it is a mean, of this many steps
    last: float | None = None
    is_open: bool = False  # whether the validation loss is higher
    trend: float | None = None  # over the last half of the run
    error: float = math.inf  # standard error of the trend, larger if there are few points
    train_rose: float = 0.0  # how far the last training losses are above those up to the best validation loss ...
    val_rose: float = 0.0  # ... the last validation loss above the best ...
    rose: float = 0.0  # ... and the gap above its earlier value ...
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
            unsure = 1 + 6 / math.pow(len(later) - 2, 1.5)  # roughly Student's t: few points, uncertain scatter
            gaps = gaps._replace(trend=line[0] * span, error=line[1] * span * unsure)
        return gaps._since_best(best, pairs, by_steps=by_steps)

    def _since_best(self, best: Best, pairs: Sequence[_Pair], *, by_steps: bool) -> Gaps:
        """What rose since the best validation loss; the error of the gap comes from its own scatter."""
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
    """Losses whose gap can be followed: all of one kind, pairing a lagging training loss with an equally lagging
    validation loss.

    The mean loss of the steps since the last evaluation belongs to no evaluated model, so it is compared with the mean
    of the validation losses at both ends of these steps. Otherwise the gap would grow just because the lag shrinks, and
    a diverging run would look like overfitting. Dropout raises this mean as well.
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
    """How far a validation loss must be above the best to be clearly worse; far, if the noise is unknown."""
    noise = error or noise_of(curve)
    if noise is None:
        return _LARGE * abs(best.val)
    unsure = 1 + 6 / math.pow(max(1, len(curve) // 2), 1.5)  # the noise of few evaluations is itself uncertain
    sure = min(_APART * unsure * noise, _MATERIAL * abs(best.val))
    return max(_CLEAR * noise, sure, _SMALLEST * abs(best.val))


def turned_up(curve: Sequence[tuple[int, float]], best: Best | None, beyond: float) -> bool:
    """Whether the validation loss has clearly left its minimum: all of the last evaluations are above it, and their
    mean is above that of the best and its lower neighbour. The lowest of many evaluations is partly luck. If it has
    risen each time since, which is no chance, it is enough that the last one is."""
    if best is None:
        return False
    since = [val for iteration, val in curve if iteration > best.iteration]
    if len(since) >= _RISES and all(map(lt, (best.val, *since), since)) and since[-1] > best.val + beyond:
        return True
    recent = since[-_RISING:]
    place = bisect_left(curve, (best.iteration, -math.inf))
    around = sorted(val for _, val in curve[max(0, place - 1) : place + 2])[:2]
    return (
        len(recent) == _RISING
        and min(recent) > best.val + beyond
        and sum(recent) / len(recent) > sum(around) / len(around) + beyond
    )


def growth_of(loss: Loss, gaps: Gaps, turned: bool, beyond: float) -> str | None:
    """The finding about a growing gap. It is overfitting only if the validation loss has turned up and the training
    loss has not: a restart or a divergence raises both. While the validation loss still falls, every small dataset
    shows a growing gap. With dropout, the mean of the steps may stay above the validation loss even as that turns
    up."""
    if loss.last_val is None or loss.best_val is None or not (gaps.is_open or (turned and gaps.last_train_steps)):
        return None
    if turned:
        apart = gaps.rose > _APART * gaps.rose_error and gaps.train_rose < gaps.val_rose / 2
        return "overfitting" if apart else None
    if gaps.trend is None or loss.last_val > loss.best_val + beyond:
        return None
    return "gap_grows" if gaps.trend > max(_MATERIAL * loss.last_val, _CLEAR * gaps.error) else None


def noise_of(curve: Sequence[tuple[int, float]]) -> float | None:
    """The standard deviation of an evaluation where the loss is lowest, ignoring the untrained model. It grows with the
    loss: an overfitted model's varies much more than it did at its best."""
    points = [(iteration, val) for iteration, val in curve if iteration > 0]
    iterations, vals = [iteration for iteration, _ in points], [val for _, val in points]
    lowest = min(vals, default=0.0)
    if lowest <= 0:
        return curve_noise(iterations, vals)
    share = curve_noise(iterations, [math.log(val) for val in vals])
    return None if share is None else share * lowest
