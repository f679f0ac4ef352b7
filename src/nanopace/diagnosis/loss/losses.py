"""What the losses show: the best model, whether it was saved, noise, and where more training would lead.

Trainers print two losses. The one of an evaluation is a mean over many batches and can be trusted. In nanoGPT, the one
of a row comes from a single micro-batch, and its ups and downs mean nothing.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from itertools import chain

from nanopace.diagnosis.loss.final_loss import final_loss
from nanopace.diagnosis.loss.overfitting import (
    Best,
    Gaps,
    best_of,
    beyond_noise,
    growth_of,
    is_sane,
    noise_of,
    turned_up,
)
from nanopace.diagnosis.loss.schedule import Cosine, cools_down, has_fallen, rate_left, schedule_of
from nanopace.diagnosis.loss.trend import fit_trend, step_noise
from nanopace.diagnosis.result import Finding, Forecast, Loss, Number
from nanopace.run import Evaluation, Metric, Run

_FEWEST_ROWS = 10  # in the later half, for the noise of the printed loss
_MOST_ROWS = 20_000  # the last ones; more would add nothing
_HORIZONS = (1.5, 2.0)  # times the iterations done
_RATE_LEFT = 0.85  # of the present rate: with less, the trend's interval held in 62 to 78% of forecasts, else in 93%
_COSINE_TOKENS = (400_000, 600_000)  # per iteration: all runs that the law for a cosine was tested on had 0.5M
_OTHER_COURSE = ("batch_scheduled", "layers_repeated")  # the loss then falls as no other run's does
_LOSS_METRICS: tuple[Metric, ...] = ("loss", "bpc", "bpb")  # the first wins a tie
_LARGEST_EXPONENT = 700.0  # beyond this, a perplexity overflows
_ENDS = 10  # the first and the last of this many parts of the rows show the initial and the final loss


def describe_loss(run: Run) -> tuple[Loss, list[Finding]]:
    """The losses of a run, and the findings about them."""
    metric = _metric(run.evaluations)
    evaluations = [each for each in run.evaluations if each.metric == metric]
    curve = _curve(evaluations)
    best = best_of(evaluations)
    last = curve[-1] if curve else None
    gaps = Gaps.of(evaluations, best)
    diverged = _diverged(run, evaluations)
    errors = {each.iteration: each.val_error for each in evaluations}
    beyond = beyond_noise(curve, best, errors.get(best.iteration)) if best else 0.0
    turned = turned_up(curve, best, beyond)
    forecast, withheld = ((), False) if diverged is not None or turned else _forecast(run, metric, curve)
    scores = [(each.iteration, each.val) for each in run.evaluations if each.metric == "core" and each.val is not None]
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
    growth = growth_of(loss, gaps, turned, beyond)
    found = _findings(run, loss, evaluations, _better_than_saved(run, loss, evaluations, curve), diverged, growth)
    return loss, [*found, Finding("forecast_withheld", {})] if withheld else found


def training_loss_course(run: Run) -> list[Finding]:
    """Where the loss of the rows started and ended, as means, because single rows scatter."""
    rows = run.logged
    known = [index for index, loss in enumerate(rows.loss) if is_sane(loss)]
    if len(known) < 2 or max(rows.count) > 1:
        return []
    count = max(1, len(known) // _ENDS)
    if count == 1 and (known[0], known[-1]) != (0, len(rows) - 1):
        return []  # the finding names the first and the last row, and one of them is not a number
    first, last = (sum(rows.loss[index] for index in part) / count for part in (known[:count], known[-count:]))
    return [Finding("training_loss_course", {"first_loss": first, "last_loss": last, "rows": count})]


def _findings(
    run: Run,
    loss: Loss,
    evaluations: Sequence[Evaluation],
    lost_best: bool,
    diverged: int | None,
    growth: str | None,
) -> list[Finding]:
    found = []
    if diverged is not None:
        is_first = not _was_finite(run, evaluations, diverged)
        found.append(Finding("loss_diverged", {"iteration": diverged, "first": diverged if is_first else None}))
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
        found.append(Finding("forecast" if first.basis == "trend" else "final_loss", numbers))
    return found


def _core_numbers(run: Run, loss: Loss) -> dict[str, Number]:
    """The last score, and the best one if it is a different one."""
    fallen = loss.best_core != loss.core
    return {
        "score": "HellaSwag" if not run.has_stages else "ChatCORE" if run.stage == "sft" else "CORE",
        "core": loss.core,
        "core_iteration": loss.core_iteration,
        "best_core": loss.best_core if fallen else None,
        "best_core_iteration": loss.best_core_iteration if fallen else None,
    }


def _metric(evaluations: Sequence[Evaluation]) -> Metric:
    """The metric that most evaluations have. Benchmark scores do not count: for them, higher is better."""
    metrics = [each.metric for each in evaluations]
    return max(_LOSS_METRICS, key=metrics.count)


def _curve(evaluations: Sequence[Evaluation]) -> list[tuple[int, float]]:
    """Validation losses by iteration; the later loss if an iteration was evaluated twice."""
    by_iteration = {each.iteration: each.val for each in evaluations if each.val is not None}
    return sorted((iteration, val) for iteration, val in by_iteration.items() if is_sane(val))


def _perplexity(loss: float) -> float | None:
    return math.exp(loss) if loss < _LARGEST_EXPONENT else None


def _diverged(run: Run, evaluations: Sequence[Evaluation]) -> int | None:
    """The first iteration whose loss was printed as nan or inf."""
    try:
        in_rows = run.logged.iteration[run.logged.loss.index(math.inf)]
    except ValueError:
        in_rows = None
    bad = (each.iteration for each in evaluations if each.val is not None and not is_sane(each.val))
    in_evaluations = next(bad, None)
    return min((each for each in (in_rows, in_evaluations) if each is not None), default=None)


def _was_finite(run: Run, evaluations: Sequence[Evaluation], until: int) -> bool:
    """Whether any loss up to that iteration was printed as a finite number."""
    in_rows = zip(run.logged.iteration, run.logged.loss, strict=True)
    in_evaluations = ((each.iteration, math.nan if each.val is None else each.val) for each in evaluations)
    return any(iteration <= until and is_sane(loss) for iteration, loss in chain(in_rows, in_evaluations))


# --- the best model, and whether it was kept -------------------------------------------------------------------------


def _saved(run: Run, best: Best) -> bool | None:
    """Whether the best model was saved; None if the log shows no saves at all or ends too early to show this one."""
    rows = run.logged
    if not run.checkpoints or not len(rows) or rows.last_iteration[-1] < best.iteration:
        return None
    return best.stands_at in _saved_iterations(run)


def _saved_iterations(run: Run) -> set[int]:
    """Iterations whose model was saved, including those that a process resumed from even if their rows were
    repeated."""
    return {each.iteration for each in run.checkpoints} | {each.iteration for each in run.restarts}


def _better_than_saved(
    run: Run, loss: Loss, evaluations: Sequence[Evaluation], curve: Sequence[tuple[int, float]]
) -> bool:
    """Whether the best model is lost and was clearly better than the best saved one."""
    if loss.saved_best is not False or loss.best_val is None or loss.best_val_iteration == 0:
        return False
    saved = _saved_iterations(run)
    kept = best_of([each for each in evaluations if each.iteration in saved])
    return kept is None or kept.val - loss.best_val > 2 * (noise_of(curve) or 0.0)


# --- the printed loss, and what is to come ---------------------------------------------------------------------------


def _printed_noise(run: Run) -> float | None:
    """The noise of the later half of the rows, where the trend is slow."""
    rows = run.logged
    half = slice(max(len(rows) // 2, len(rows) - _MOST_ROWS), None)
    losses = [(loss, count) for loss, count in zip(rows.loss[half], rows.count[half], strict=True) if is_sane(loss)]
    if len(losses) < _FEWEST_ROWS:
        return None
    return step_noise([loss for loss, _ in losses], [count for _, count in losses])


def _forecast(run: Run, metric: Metric, curve: Sequence[tuple[int, float]]) -> tuple[tuple[Forecast, ...], bool]:
    """The forecast; and, without one, whether the reason is the schedule, which makes the trend too high."""
    if metric == "loss" and (at_end := _at_end(run, curve)) is not None:
        return (at_end,), False
    trend = _trend_forecast(run, curve)
    done = curve[-1][0] if trend else 0
    holds = [not cools_down(run) and rate_left(run, done, each.iteration) >= _RATE_LEFT for each in trend]
    kept = tuple(each for each, good in zip(trend, holds, strict=True) if good)
    return kept, bool(trend) and not kept and not has_fallen(run)


def _at_end(run: Run, curve: Sequence[tuple[int, float]]) -> Forecast | None:
    """By the law for this kind of schedule, if the run is like those that the law was tested on."""
    schedule = schedule_of(run)
    other = any(caveat.code in _OTHER_COURSE for caveat in run.caveats)
    other |= run.value("recipe") is not None  # our own: no run of ours is among those that the law was tested on
    other |= str(run.value("init_from") or "").startswith("gpt2")  # it starts with what another run has learned
    if schedule is None or other or schedule.end != run.number("max_iters"):
        return None
    if isinstance(schedule, Cosine):
        tokens = run.number("tokens_per_iteration") or 0.0
        if not _COSINE_TOKENS[0] <= tokens <= _COSINE_TOKENS[1]:
            return None
    band = final_loss(curve, schedule)
    return band and Forecast(schedule.end, band.value, band.low, band.high, "schedule")


def _trend_forecast(run: Run, curve: Sequence[tuple[int, float]]) -> tuple[Forecast, ...]:
    """Forecast up to the end of the schedule: training beyond it needs a new schedule and follows a different curve."""
    warm = int(run.number("warmup_iters") or 0) + 1  # the end of the warm-up still belongs to its fall
    later = curve[bisect_left(curve, (warm, -math.inf)) :]
    trend = fit_trend([iteration for iteration, _ in later], [val for _, val in later])
    if trend is None:
        return ()
    end = _schedule_end(run)
    done = later[-1][0]
    goals = [min(round(done * factor), end) if end else round(done * factor) for factor in _HORIZONS]
    reached = max(done, *run.logged.last_iteration[-1:], run.ended_at or 0)
    bands = [(goal, trend.at(goal)) for goal in dict.fromkeys(goals) if goal > reached]
    return tuple(Forecast(goal, band.value, band.low, band.high) for goal, band in bands)


def _schedule_end(run: Run) -> int | None:
    ends = [run.number("max_iters")]
    if run.value("decay_lr") is not False:
        ends.append(run.number("lr_decay_iters"))
    return int(min((end for end in ends if end is not None), default=0)) or None
