"""What the losses say: the best model, whether it was kept, over-fitting, noise, and where more training would lead.

Trainers print two losses. That of the evaluations is an average over many batches and can be trusted; that of the rows
is one micro-batch's in nanoGPT, and its ups and downs say nothing.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from nanopace.diagnosis.loss.trend import curve_noise, fit_trend, slope, step_noise
from nanopace.diagnosis.result import Finding, Forecast, Loss, Number
from nanopace.run import Evaluation, Metric, Run

_FEWEST_ROWS = 10  # in the later half, for the noise of the printed loss
_MOST_ROWS = 20_000  # the last ones; more would tell nothing new
_RISING = 3  # the last evaluations, all of which have to be above the best: one or two are an accident
_CLEAR = 3.0  # standard deviations that a change has to be beyond
_APART = 4.0  # standard deviations that validation, and the gap, have to be above what they were at the best
_LARGE = 0.01  # of the loss: what a change has to be beyond where too few evaluations tell their noise
_SMALLEST = 0.003  # of the loss: nobody calls less a rise, however quiet the evaluations are
_MATERIAL = 0.03  # of the loss: a gap that grew by this is worth a word, and a rise of this is one
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
    gaps = _Gaps.of(evaluations, best)
    diverged = _diverged(run, evaluations)
    errors = {each.iteration: each.val_error for each in evaluations}
    beyond = _beyond_noise(curve, best, errors.get(best.iteration)) if best else 0.0
    turned = _turned_up(curve, best, beyond)
    forecast = () if diverged is not None or turned else _forecast(run, curve)
    scores = _scores(run.evaluations)
    best_score = max(scores, key=lambda score: score[1], default=None)
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
        core=scores[-1][1] if scores else None,
        core_iteration=scores[-1][0] if scores else None,
        best_core=best_score[1] if best_score else None,
        best_core_iteration=best_score[0] if best_score else None,
        last_train_steps=gaps.last_train_steps,
    )
    growth = _growth(loss, gaps, turned, beyond)
    return loss, _findings(run, loss, _better_than_saved(run, loss, evaluations, curve), diverged, growth)


def _findings(run: Run, loss: Loss, lost_best: bool, diverged: int | None, growth: str | None) -> list[Finding]:
    found = []
    if diverged is not None:
        found.append(Finding("loss_diverged", {"iteration": diverged}))
    if growth is not None and diverged is None:
        numbers = {"gap": loss.gap, "gap_trend": loss.gap_trend, "train_steps": loss.last_train_steps}
        best = {"best_val": loss.best_val, "best_val_iteration": loss.best_val_iteration, "last_val": loss.last_val}
        found.append(Finding(growth, numbers | best if growth == "overfitting" else numbers))
    if lost_best:
        numbers = {"best_val": loss.best_val, "best_val_iteration": loss.best_val_iteration}
        found.append(Finding("best_not_saved", numbers))
    if loss.core is not None:
        found.append(Finding("core_metric", _core_numbers(run, loss)))
    accumulation = run.number("gradient_accumulation_steps")
    if loss.noise and run.row_loss == "micro-batch" and accumulation != 1:
        number = None if accumulation is None else int(accumulation)
        found.append(Finding("loss_noise", {"noise": loss.noise, "accumulation": number}))
    if loss.forecast:
        first = loss.forecast[0]
        numbers = {"iteration": first.iteration, "loss": first.loss, "low": first.low, "high": first.high}
        found.append(Finding("forecast", numbers))
    return found


def _scores(evaluations: Sequence[Evaluation]) -> list[tuple[int, float]]:
    """Benchmark scores by rising iteration."""
    return [(each.iteration, each.val) for each in evaluations if each.metric == "core" and each.val is not None]


def _core_numbers(run: Run, loss: Loss) -> dict[str, Number]:
    """The last score, and the best one where that is another."""
    fallen = loss.best_core != loss.core
    return {
        "score": "ChatCORE" if run.stage == "sft" else "CORE",
        "core": loss.core,
        "core_iteration": loss.core_iteration,
        "best_core": loss.best_core if fallen else None,
        "best_core_iteration": loss.best_core_iteration if fallen else None,
    }


def _metric(evaluations: Sequence[Evaluation]) -> Metric:
    """The one that most evaluations have. Benchmark scores do not count: they rise."""
    metrics = [each.metric for each in evaluations]
    return max(_LOSS_METRICS, key=metrics.count)


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
    """None where the log shows no saves at all, or ends before it could show this one."""
    if not run.checkpoints or not len(run.rows) or run.rows.last_iteration[-1] < best.iteration:
        return None
    return best.stands_at in _saved_iterations(run)


def _saved_iterations(run: Run) -> set[int]:
    """Iterations whose model was saved, also those that a process resumed from, though their rows were repeated."""
    return {each.iteration for each in run.checkpoints} | {each.iteration for each in run.restarts}


def _better_than_saved(
    run: Run, loss: Loss, evaluations: Sequence[Evaluation], curve: Sequence[tuple[int, float]]
) -> bool:
    """Whether the best model is gone and clearly better than the best of those that were saved."""
    if loss.saved_best is not False or loss.best_val is None or loss.best_val_iteration == 0:
        return False
    saved = _saved_iterations(run)
    kept = _best([each for each in evaluations if each.iteration in saved])
    return kept is None or kept.val - loss.best_val > 2 * (_noise(curve) or 0.0)


# --- over-fitting ----------------------------------------------------------------------------------------------------


class _Pair(NamedTuple):
    """A training loss, and the validation loss that it can be compared with."""

    iteration: int
    train: float
    val: float

    @property
    def gap(self) -> float:
        return self.val - self.train


class _Gaps(NamedTuple):
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
    def of(cls, evaluations: Sequence[Evaluation], best: _Best | None) -> _Gaps:
        known = [
            (each, each.train, each.val)
            for each in evaluations
            if each.train is not None and each.val is not None and _sane(each.train) and _sane(each.val)
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

    def _since_best(self, best: _Best, pairs: Sequence[_Pair], *, by_steps: bool) -> _Gaps:
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
        if each.val is None or not _sane(each.val):
            continue
        val = each.val if not by_steps else None if before is None else (before + each.val) / 2
        same_kind = (each.train_steps is not None) == by_steps
        if same_kind and val is not None and each.train is not None and _sane(each.train):
            yield _Pair(each.iteration, each.train, val)
        before = each.val


def _beyond_noise(curve: Sequence[tuple[int, float]], best: _Best, error: float | None) -> float:
    """What a validation loss has to be above the best to be clearly worse; where the noise is unknown, a lot."""
    noise = error or _noise(curve)
    if noise is None:
        return _LARGE * abs(best.val)
    unsure = 1 + 6 / math.pow(max(1, len(curve) // 2), 1.5)  # the noise of few evaluations is itself known badly
    sure = min(_APART * unsure * noise, _MATERIAL * abs(best.val))
    return max(_CLEAR * noise, sure, _SMALLEST * abs(best.val))


def _turned_up(curve: Sequence[tuple[int, float]], best: _Best | None, beyond: float) -> bool:
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


def _growth(loss: Loss, gaps: _Gaps, turned: bool, beyond: float) -> str | None:
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
