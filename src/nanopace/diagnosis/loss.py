"""What the losses say: the best model, whether it was kept, over-fitting, noise, and where more training would lead.

Trainers print two losses. That of the evaluations is an average over many batches and can be trusted; that of the rows
is one micro-batch's in nanoGPT, and its ups and downs say nothing.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from nanopace.diagnosis.fit import curve_noise, fit_trend, slope, step_noise
from nanopace.diagnosis.result import Finding, Forecast, Loss
from nanopace.run import Evaluation, Metric, Run

_FEWEST_ROWS = 10  # in the later half, for the noise of the printed loss
_MOST_ROWS = 20_000  # the last ones; more would tell nothing new
_RISING = 3  # evaluations in a row that make over-fitting more than an accident
_CLEAR = 3.0  # standard deviations that a change has to be beyond
_MATERIAL = 0.03  # a gap that grew by this share of the loss is worth a word
_HORIZONS = (1.5, 2.0)  # times the iterations done
_LARGEST = 1e6  # a loss beyond this has diverged, even if it is still printed as a number
_LOSS_METRICS: tuple[Metric, ...] = ("loss", "bpc", "bpb")  # of equally many the first
_LARGEST_EXPONENT = 700.0  # of a perplexity that is still a number


def describe_loss(run: Run) -> tuple[Loss, list[Finding]]:
    """The losses of a run, and what is worth saying about them."""
    metric = _metric(run.evaluations)
    evaluations = [each for each in run.evaluations if each.metric == metric]
    curve = _curve(evaluations)
    best = _best(evaluations)
    last = curve[-1] if curve else None
    gaps = _Gaps.of(evaluations)
    diverged = _diverged(run, evaluations)
    rising = _overfitting(curve, best, gaps)
    forecast = () if diverged is not None or rising else _forecast(run, curve)
    errors = {each.iteration: each.val_error for each in evaluations}
    loss = Loss(
        metric=metric,
        best_val=best.val if best else None,
        best_val_iteration=best.iteration if best else None,
        best_val_perplexity=_perplexity(best.val) if best and metric == "loss" else None,
        last_val=last[1] if last else None,
        last_val_iteration=last[0] if last else None,
        last_train=gaps.last_train,
        gap=gaps.last,
        gap_trend=gaps.trend,
        saved_best=_saved(run, best) if best else None,
        noise=_printed_noise(run),
        forecast=forecast,
        best_val_error=errors.get(best.iteration) if best else None,
        last_val_error=errors.get(last[0]) if last else None,
    )
    return loss, _findings(run, loss, _lost_a_better_one(run, loss, evaluations, curve), diverged, rising)


def _findings(run: Run, loss: Loss, lost_best: bool, diverged: int | None, rising: bool) -> list[Finding]:
    found = []
    if diverged is not None:
        found.append(Finding("loss_diverged", {"iteration": diverged}))
    if rising:
        numbers = {"gap": loss.gap, "gap_trend": loss.gap_trend, "best_val_iteration": loss.best_val_iteration}
        found.append(Finding("overfitting", numbers))
    if lost_best:
        numbers = {"best_val": loss.best_val, "best_val_iteration": loss.best_val_iteration}
        found.append(Finding("best_not_saved", numbers))
    accumulation = run.number("gradient_accumulation_steps")
    if loss.noise is not None and run.format == "nanogpt" and accumulation != 1:
        number = None if accumulation is None else int(accumulation)
        found.append(Finding("loss_noise", {"noise": loss.noise, "accumulation": number}))
    if loss.forecast:
        first = loss.forecast[0]
        numbers = {"iteration": first.iteration, "loss": first.loss, "low": first.low, "high": first.high}
        found.append(Finding("forecast", numbers))
    return found


def _metric(evaluations: Sequence[Evaluation]) -> Metric:
    """The one that most evaluations have; benchmark scores, which rise, are none."""
    counts = {metric: sum(each.metric == metric for each in evaluations) for metric in _LOSS_METRICS}
    return max(_LOSS_METRICS, key=counts.__getitem__)


def _curve(evaluations: Sequence[Evaluation]) -> list[tuple[int, float]]:
    """Validation losses by rising iteration; of an iteration that was evaluated again, the later loss."""
    by_iteration = {each.iteration: each.val for each in evaluations if each.val is not None}
    return sorted((iteration, val) for iteration, val in by_iteration.items() if _sane(val))


def _sane(loss: float) -> bool:
    return abs(loss) <= _LARGEST  # False for nan too


def _perplexity(loss: float) -> float | None:
    return math.exp(loss) if loss < _LARGEST_EXPONENT else None


def _diverged(run: Run, evaluations: Sequence[Evaluation]) -> int | None:
    """The first iteration whose loss was printed as nan or inf."""
    try:
        in_rows = run.rows.iteration[run.rows.loss.index(math.inf)]
    except ValueError:
        in_rows = None
    bad = (each.iteration for each in evaluations if each.val is not None and not _sane(each.val))
    in_evaluations = next(bad, None)
    return min((each for each in (in_rows, in_evaluations) if each is not None), default=None)


# --- the best model, and whether it was kept -------------------------------------------------------------------------


class _Best(NamedTuple):
    """The lowest loss. Where many evaluations stand as one, the save is found by that one's iteration."""

    val: float
    iteration: int
    stands_at: int


def _best(evaluations: Sequence[Evaluation]) -> _Best | None:
    """Of those with the same loss the first."""
    vals = ((*each.best, each.iteration) for each in evaluations)
    return min(
        (_Best(val, at, stands_at) for at, val, stands_at in vals if val is not None and _sane(val)), default=None
    )


def _saved(run: Run, best: _Best) -> bool | None:
    """None where the log shows no saves at all, or ends before it could tell of this one."""
    if not run.checkpoints or not len(run.rows) or run.rows.last_iteration[-1] < best.iteration:
        return None
    return any(each.iteration == best.stands_at for each in run.checkpoints)


def _lost_a_better_one(
    run: Run, loss: Loss, evaluations: Sequence[Evaluation], curve: Sequence[tuple[int, float]]
) -> bool:
    """Whether the best model is gone and clearly better than the best of those that were saved."""
    if loss.saved_best is not False or loss.best_val is None or loss.best_val_iteration == 0:
        return False
    saved = {each.iteration for each in run.checkpoints}
    kept = _best([each for each in evaluations if each.iteration in saved])
    return kept is None or kept.val - loss.best_val > 2 * (_noise(curve) or 0.0)


# --- over-fitting ----------------------------------------------------------------------------------------------------


class _Gaps(NamedTuple):
    """Validation less training loss: the last one, and its change over the last half of the run."""

    last_train: float | None = None
    last: float | None = None
    trend: float | None = None
    error: float = math.inf  # standard error of the trend

    @classmethod
    def of(cls, evaluations: Sequence[Evaluation]) -> _Gaps:
        points = [
            (each.iteration, each.train, each.val - each.train)
            for each in evaluations
            if each.train is not None and each.val is not None and _sane(each.train) and _sane(each.val)
        ]
        if not points:
            return cls()
        end, last_train, last = points[-1]
        later = [(iteration, gap) for iteration, gap in _like_with_like(evaluations) if iteration >= end / 2]
        line = slope([iteration for iteration, _ in later], [gap for _, gap in later])
        if line is None:
            return cls(last_train, last)
        span = later[-1][0] - later[0][0]
        return cls(last_train, last, line[0] * span, line[1] * span)


def _like_with_like(evaluations: Sequence[Evaluation]) -> Iterator[tuple[int, float]]:
    """Gaps whose change says something.

    The mean loss of the steps since the evaluation before lags behind the model: it is held against the validation
    losses at both ends of these steps. Otherwise the gap would grow by no more than the lag shrinks.
    """
    before: float | None = None
    for each in evaluations:
        if each.val is None or not _sane(each.val):
            continue
        val = each.val if each.train_steps is None else None if before is None else (before + each.val) / 2
        if each.iteration > 0 and each.train is not None and val is not None and _sane(each.train):
            yield each.iteration, val - each.train
        before = each.val


def _overfitting(curve: Sequence[tuple[int, float]], best: _Best | None, gaps: _Gaps) -> bool:
    """The gap grows, and validation has clearly left its best or the gap is already a material part of the loss."""
    if best is None or gaps.last is None or gaps.trend is None or gaps.last <= 0 or gaps.trend <= 0:
        return False
    recent = [val for iteration, val in curve if iteration > best.iteration][-_RISING:]
    noise = _noise(curve)
    if len(recent) == _RISING and noise is not None and min(recent) > best.val + _CLEAR * noise:
        return True
    return gaps.trend > max(_MATERIAL * curve[-1][1], _CLEAR * gaps.error)


def _noise(curve: Sequence[tuple[int, float]]) -> float | None:
    points = [(iteration, val) for iteration, val in curve if iteration > 0]
    return curve_noise([iteration for iteration, _ in points], [val for _, val in points])


# --- the printed loss, and what is to come ---------------------------------------------------------------------------


def _printed_noise(run: Run) -> float | None:
    """From the later half of the rows, where the trend is slow."""
    half = slice(max(len(run.rows) // 2, len(run.rows) - _MOST_ROWS), None)
    losses = [
        (loss, count) for loss, count in zip(run.rows.loss[half], run.rows.count[half], strict=True) if _sane(loss)
    ]
    if len(losses) < _FEWEST_ROWS:
        return None
    return step_noise([loss for loss, _ in losses], [count for _, count in losses])


def _forecast(run: Run, curve: Sequence[tuple[int, float]]) -> tuple[Forecast, ...]:
    """Up to the end of the schedule: what comes after it needs another one, and is another curve."""
    warm = int(run.number("warmup_iters") or 0) + 1  # the end of the warm-up is still part of its fall
    later = curve[bisect_left(curve, (warm, -math.inf)) :]
    trend = fit_trend([iteration for iteration, _ in later], [val for _, val in later])
    if trend is None:
        return ()
    end = _schedule_end(run)
    done = later[-1][0]
    goals = [min(round(done * factor), end) if end else round(done * factor) for factor in _HORIZONS]
    bands = [(goal, trend.at(goal)) for goal in dict.fromkeys(goals) if goal > done]
    return tuple(Forecast(goal, band.value, band.low, band.high) for goal, band in bands)


def _schedule_end(run: Run) -> int | None:
    ends = [run.number("max_iters")]
    if run.value("decay_lr") is not False:
        ends.append(run.number("lr_decay_iters"))
    return int(min((end for end in ends if end is not None), default=0)) or None
