"""When two runs reached the same validation loss: the question of anyone waiting for a model.

The goal is the lowest loss that both have reached: the best loss of the run that ended worse. The clock starts at the
first step: it leaves out start-up, compilation and the evaluation before the first step, and includes all later
evaluations and checkpoints. Between two evaluations, the loss is taken to be a straight line. A real loss curve sags
below that line, so the time is too long rather than too short.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from nanopace.diagnosis.compare.align import CLEAR, LARGE, Curve
from nanopace.diagnosis.compare.comparable import OTHER_TOKENS, why_incomparable
from nanopace.diagnosis.comparison import Arrival, ErrorBasis, Reached, Sooner, TrainingClock
from nanopace.diagnosis.result import Diagnosis
from nanopace.run import Metric
from nanopace.sources.formats.registry import find_format

SAME_TIME = 1.02  # a smaller ratio is within the day-to-day variation of a machine


class Moment(NamedTuple):
    """An evaluation, timed from the first step."""

    iteration: int
    seconds: float
    val: float


class _Crossing(NamedTuple):
    """Where a curve first reaches a loss."""

    iteration: float
    seconds: float
    after: int | None  # iteration of the evaluation before; None if the first one already reaches it
    by: int  # iteration of the evaluation that reaches it


def training_curve(run: Diagnosis, metric: Metric | None = None) -> tuple[Moment, ...]:
    """The validation losses over the seconds since the first step; empty if the times are unknown."""
    if not clock_known(run):
        return ()
    curves, moments = run.curves, list[Moment]()
    vals = curves.eval_val if metric in (None, run.loss.metric) else _bits(run)
    for iteration, seconds, val in zip(curves.eval_iteration, training_seconds(run), vals, strict=True):
        if val is None or seconds is None or not math.isfinite(val) or not math.isfinite(seconds):
            continue
        moment = Moment(iteration, seconds, val)
        if not moments or (moment.iteration > moments[-1].iteration and moment.seconds >= moments[-1].seconds):
            moments.append(moment)
    return tuple(moments)


def training_seconds(run: Diagnosis) -> tuple[float | None, ...]:
    """When each evaluation ended, in seconds since the first step."""
    start = _first_step_s(run)
    return tuple(None if each is None else max(0.0, each - start) for each in run.curves.eval_seconds)


def starts_late(run: Diagnosis) -> bool:
    """Whether the log starts in the middle of a training, so that the time before is unknown."""
    return run.source.first_iteration > max(1, run.source.log_interval or 1)


def rows_hide_steps(run: Diagnosis) -> bool:
    """Whether some iterations have no row and no row is a plain step, so that their time is unknown."""
    every_iteration = run.source.log_interval == 1 or run.source.first_iteration == run.source.last_iteration
    return run.timed and not run.step.normal_rows and not run.wall.measured and not every_iteration


def clock_known(run: Diagnosis) -> bool:
    """Whether the time of every evaluation since the start of the run is known."""
    return run.timed and not starts_late(run) and not rows_hide_steps(run)


def arrive(a: Diagnosis, b: Diagnosis) -> Arrival | None:
    """The goal, and when each run reached it; None if losses or times are unknown or not comparable."""
    metric = _metric(a, b)
    if metric is None:
        return None
    curves = training_curve(a, metric), training_curve(b, metric)
    if not all(curve and curve[-1].iteration > 0 for curve in curves):
        return None
    target = max(min(moment.val for moment in curve) for curve in curves)
    error, basis = _error((a, b), curves, metric)
    of_a, of_b = (_reached(run, curve, target, error) for run, curve in zip((a, b), curves, strict=True))
    ratio = of_b.seconds / of_a.seconds if of_a.seconds > 0 else 0.0
    known = ratio if 0 < ratio < math.inf else None
    sooner = None if known is None else _sooner((of_a, of_b), curves, known, target, error)
    return Arrival(metric, target, error, basis, of_a, of_b, known, sooner)


def _metric(a: Diagnosis, b: Diagnosis) -> Metric | None:
    """The runs' own metric if it is comparable; bits per byte if only the tokens differ and both have them."""
    why = why_incomparable(a, b)
    if why is None:
        return a.loss.metric
    in_bits = why.code in OTHER_TOKENS and all(any(bits is not None for bits in _bits(run)) for run in (a, b))
    return "bpb" if in_bits else None


def _bits(run: Diagnosis) -> tuple[float | None, ...]:
    return run.curves.eval_bits or (None,) * len(run.curves.eval_iteration)


def _first_step_s(run: Diagnosis) -> float:
    """When the first step starts on the wall clock: at the end of the evaluation before it, if there is one, and of
    what compiles in the first rows after that."""
    evaluated = zip(run.curves.eval_iteration, run.curves.eval_seconds, strict=True)
    before = ((at, seconds) for at, seconds in evaluated if at <= run.source.first_iteration and seconds is not None)
    at, seconds = next(before, (None, None))
    if at is None or seconds is None:
        return run.wall.startup_s or 0.0
    in_the_row = find_format(run.source.format).row_contains_evaluation  # then it ends after what compiles there
    return seconds if in_the_row else seconds + _compiled_s(run, at, seconds)


def _compiled_s(run: Diagnosis, iteration: int, seconds: float) -> float:
    """The time beyond their steps of the rows that start the run."""
    step_s, beyond_s = (run.step.median_ms or 0.0) / 1000, 0.0
    rows = zip(run.curves.row_iteration, run.curves.row_seconds, run.curves.row_cause, strict=True)
    for last, end_s, cause in rows:
        if cause != "compile" or end_s is None:
            break
        beyond_s += max(0.0, end_s - seconds - max(1, last - iteration) * step_s)
        iteration, seconds = last, max(seconds, end_s)
    return min(beyond_s, run.wall.startup_s or 0.0)


def _error(
    runs: Sequence[Diagnosis], curves: Sequence[Sequence[Moment]], metric: Metric
) -> tuple[float | None, ErrorBasis]:
    """The uncertainty of the difference of two losses: from the standard errors that the trainers print for their best
    loss, or from the scatter of the evaluations around their trend. None if a run has too few."""
    errors, printed = list[float](), 0
    for run, curve in zip(runs, curves, strict=True):
        error = run.loss.best_val_error if metric == run.loss.metric else None
        if error is not None and 0 < error < math.inf:
            printed += 1
        else:
            error = Curve.through((moment.iteration, moment.val) for moment in curve).noise
        if error is None:
            return None, "unknown"
        errors.append(error)
    return math.hypot(*errors), "standard_error" if printed == len(errors) else "mixed" if printed else "scatter"


def _reached(run: Diagnosis, curve: Sequence[Moment], target: float, error: float | None) -> Reached:
    there = _crossing(curve, target)
    early, late = (
        (None, None) if error is None else (_crossing(curve, target + error), _crossing(curve, target - error))
    )
    assert there is not None, "the target is no lower than the lowest loss of either"
    tokens = run.throughput.tokens_per_iteration
    return Reached(
        seconds=there.seconds,
        early_s=None if early is None else early.seconds,
        late_s=None if late is None else late.seconds,
        iteration=there.iteration,
        after_iteration=there.after,
        by_iteration=there.by,
        tokens=None if tokens is None else there.iteration * tokens,
        clock=_clock(run),
    )


def _crossing(curve: Sequence[Moment], loss: float) -> _Crossing | None:
    """Interpolate between the last evaluation above the loss and the first that is not; None if the curve never reaches
    it."""
    index = next((index for index, moment in enumerate(curve) if moment.val <= loss), None)
    if index is None:
        return None
    right = curve[index]
    if not index:
        return _Crossing(right.iteration, right.seconds, None, right.iteration)
    left = curve[index - 1]
    share = (left.val - loss) / (left.val - right.val)
    return _Crossing(
        left.iteration + share * (right.iteration - left.iteration),
        left.seconds + share * (right.seconds - left.seconds),
        left.iteration,
        right.iteration,
    )


def _clock(run: Diagnosis) -> TrainingClock:
    if run.wall.measured:
        return "measured"
    return "incomplete" if run.wall.unknown_s is None else "rows"


def _sooner(
    reached: Sequence[Reached], curves: Sequence[Sequence[Moment]], ratio: float, target: float, error: float | None
) -> Sooner | None:
    """The run that reaches the goal first, if the other is clearly behind at that time; None if the noise is unknown
    and the difference is not large, or if the first evaluation of the other is already there, at a time before that."""
    clearly = target + (LARGE * abs(target) if error is None else CLEAR * error)
    first, second = (0, 1) if ratio > 1 else (1, 0)
    if reached[second].after_iteration is None:
        return None
    behind = _crossing(curves[second], clearly)
    if max(ratio, 1 / ratio) < SAME_TIME:
        return "tie"
    if behind is None or behind.seconds <= reached[first].seconds:
        return None if error is None else "tie"
    return "b" if first else "a"
