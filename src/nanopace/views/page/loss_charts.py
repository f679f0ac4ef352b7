"""Charts of losses: over tokens and over time, for one run or several."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from nanopace.diagnosis.comparison import Comparison
from nanopace.diagnosis.result import Diagnosis
from nanopace.run import Metric
from nanopace.views.document import run_colour, run_letter
from nanopace.views.page.charts import DASHED, Chart, Places, Series, Unit, run_dash, run_name
from nanopace.views.page.places import clock_places, token_places
from nanopace.wording.catalog import Words
from nanopace.wording.template import label

Against = Literal["tokens", "iteration", "seconds"]

AS_PRINTED: tuple[Metric, ...] = ("loss", "bpc")  # evaluations in the same unit as the rows share their axis
OF_80_PERCENT = 1.2816  # standard errors to either side
_AXES: Mapping[Against, tuple[str, str, Unit]] = {  # the title of a loss against it, its label and its unit
    "tokens": (label("Loss against tokens"), label("Tokens"), "tokens"),
    "iteration": (label("Loss against iterations"), label("Iteration"), "count"),
    "seconds": (label("Loss against time"), label("Wall clock"), "seconds"),
}
START_SHARE = 0.05  # in this first part of a run, the loss may exceed the frame, so that the rest stays readable


def loss_charts(runs: Sequence[Diagnosis], words: Words, comparisons: Sequence[Comparison] = ()) -> tuple[Chart, ...]:
    """Loss against tokens (or iterations if a run's tokens are unknown) and against time, for each metric, with the
    crossovers of compared runs. A printed loss does not fit on an axis of bits per byte, so it gets its own chart."""
    against: Against = "tokens" if all(run.throughput.tokens_per_iteration for run in runs) else "iteration"
    metrics = dict.fromkeys(run.loss.metric for run in runs)
    made = [_loss_chart(runs, words, metric, axis, comparisons) for metric in metrics for axis in (against, "seconds")]
    return tuple(chart for chart in (*made, _printed_chart(runs, words, against)) if chart is not None)


def _loss_chart(
    runs: Sequence[Diagnosis], words: Words, metric: Metric, against: Against, comparisons: Sequence[Comparison]
) -> Chart | None:
    several = len(runs) > 1
    series = tuple(
        one
        for number, run in enumerate(runs)
        if run.loss.metric == metric and (against != "seconds" or run.timed)
        for one in (_overlaid_losses(run, words, against, number) if several else _losses(run, words, against))
        if any(y is not None for y in one.y)
    )
    if not series:
        return None
    title, x_label, x_unit = _AXES[against]
    first = metric == runs[0].loss.metric
    beyond = crossovers(comparisons, words, against) if first else []
    return Chart(
        name=f"loss-{against}" if first else f"loss-{against}-{metric}",
        title=words.text(title),
        x_label=words.text(x_label),
        x_unit=x_unit,
        y_label=words.metric(metric),
        y_unit="loss",
        series=(*series, *beyond, *(() if several else _forecast(runs[0], words, against))),
        y_top=start_clipped(series),
        perplexity=metric == "loss",
        at=_places(runs, against),
        log_axes=("x", "y"),
    )


def _printed_chart(runs: Sequence[Diagnosis], words: Words, against: Against) -> Chart | None:
    """The printed training loss of runs whose evaluations have a different unit."""
    series = tuple(
        _printed(run, words, against, number if len(runs) > 1 else None)
        for number, run in enumerate(runs)
        if run.loss.metric not in AS_PRINTED and any(loss is not None for loss in run.curves.row_loss)
    )
    if not series:
        return None
    _, x_label, x_unit = _AXES[against]
    return Chart(
        name="printed-loss",
        title=words.text("Training loss as printed"),
        x_label=words.text(x_label),
        x_unit=x_unit,
        y_label=words.metric("loss"),
        y_unit="loss",
        series=series,
        y_top=start_clipped(series),
        at=_places(runs, against),
        log_axes=("x", "y"),
    )


def _places(runs: Sequence[Diagnosis], against: Against) -> Places | None:
    if against == "tokens":
        return token_places(runs)
    return clock_places(runs) if against == "seconds" else None


def _losses(run: Diagnosis, words: Words, against: Against) -> Iterable[Series]:
    """The losses of a single run, in the colours of the splits."""
    curves = run.curves
    x = _x(run, curves.eval_iteration, curves.eval_seconds, against)
    if run.loss.metric in AS_PRINTED:
        yield _printed(run, words, against, None)
    counts = curves.eval_train_steps or (None,) * len(curves.eval_train)
    losses = tuple(zip(curves.eval_train, counts, strict=True))
    measured = tuple(loss if count is None else None for loss, count in losses)
    of_steps = tuple(None if count is None else loss for loss, count in losses)
    # Measured like validation, or the mean of past steps: never both in one line.
    yield Series(words.text("training"), x, measured, "evaluation", "line", dash=DASHED)
    yield Series(words.text("training, mean of past steps"), x, of_steps, "evaluation", "line", dash=DASHED)
    yield _validation(run, words, x)
    if run.loss.best_val_iteration in curves.eval_iteration:
        best = curves.eval_iteration.index(run.loss.best_val_iteration)
        label = _best_label(run, words, saved=curves.eval_saved[best])
        yield Series(label, (x[best],), (curves.eval_val[best],), "best", "ring")


def _best_label(run: Diagnosis, words: Words, *, saved: bool) -> str:
    """The label of the best loss. If a log never mentions checkpoints, that does not mean that none was written."""
    if saved:
        return words.text("best, saved")
    return words.text("best validation") if run.loss.saved_best is None else words.text("best, not saved")


def _overlaid_losses(run: Diagnosis, words: Words, against: Against, number: int) -> Iterable[Series]:
    """The losses of one of several runs, in its own colour and dash."""
    if run.loss.metric in AS_PRINTED:
        yield _printed(run, words, against, number)
    found = _validation(run, words, _x(run, run.curves.eval_iteration, run.curves.eval_seconds, against))
    label = f"{run_name(number, run)}: {found.label}"
    yield replace(found, label=label, colour=run_colour(number), dash=run_dash(number))


def _validation(run: Diagnosis, words: Words, x: tuple[float, ...]) -> Series:
    """The validation loss, with a band if the trainer measures the uncertainty of each evaluation."""
    curves = run.curves
    if run.loss.metric != "loss" or not any(curves.eval_val_error):
        return Series(words.text("validation"), x, tuple(curves.eval_val), "checkpoint", "line")
    pairs = tuple(zip(curves.eval_val, curves.eval_val_error, strict=True))
    low, high = (
        tuple(None if val is None or error is None else val + side * error for val, error in pairs)
        for side in (-OF_80_PERCENT, OF_80_PERCENT)
    )
    label = words.text("validation, 80% interval")
    return Series(label, x, tuple(curves.eval_val), "checkpoint", "line", low=low, high=high)


def _printed(run: Diagnosis, words: Words, against: Against, number: int | None) -> Series:
    """The printed loss, faint if evaluations are drawn over it."""
    curves, label, faint = run.curves, words.text("printed"), run.loss.metric in AS_PRINTED
    x, y = _x(run, curves.row_iteration, curves.row_seconds, against), tuple(curves.row_loss)
    if number is None:
        return Series(label, x, y, "training", "line", faint, smoothable=True)
    label, dash = f"{run_name(number, run)}: {label}", run_dash(number)
    return Series(label, x, y, run_colour(number), "line", faint, dash, smoothable=True)


def _x(
    run: Diagnosis, iterations: Iterable[int], seconds: Iterable[float | None], against: Against
) -> tuple[float, ...]:
    if against == "seconds":
        return tuple(each or 0.0 for each in seconds)  # a run with times has all of them
    scale = run.throughput.tokens_per_iteration or 1.0 if against == "tokens" else 1.0
    return tuple(iteration * scale for iteration in iterations)


def _forecast(run: Diagnosis, words: Words, against: Against) -> tuple[Series, ...]:
    """The forecast; not over time, because the log does not show time beyond its end."""
    ahead = run.loss.forecast
    if not ahead or against == "seconds":
        return ()
    x = _x(run, (at.iteration for at in ahead), (), against)
    label = words.text("forecast, 80% interval")
    low, high = tuple(at.low for at in ahead), tuple(at.high for at in ahead)
    return (Series(label, x, tuple(at.loss for at in ahead), "checkpoint", "interval", low=low, high=high),)


def crossovers(comparisons: Sequence[Comparison], words: Words, against: Against) -> list[Series]:
    """Where the lead changes."""
    found = []
    for number, pair in enumerate(comparisons, start=1):
        at = {"seconds": pair.crossover_s, "tokens": pair.crossover_tokens}.get(against)
        values = [val for val in pair.b.curves.eval_val if val is not None and math.isfinite(val)]
        if at is not None and values:
            place = words.duration(at) if against == "seconds" else words.si(at, digits=2)
            label = words.text("{a} and {b} cross: {at}", a=run_letter(0), b=run_letter(number), at=place)
            found.append(Series(label, (at,), (values[-1],), run_colour(number), "upright", dash=run_dash(number)))
    return found


def start_clipped(series: Sequence[Series]) -> float | None:
    """The highest loss after the first few per cent of the run; None if nothing rises far above it."""
    values = [(x, y) for one in series for x, y in zip(one.x, one.y, strict=True) if y is not None and math.isfinite(y)]
    if not values:
        return None
    start = START_SHARE * max(x for x, _ in values)
    later = [y for x, y in values if x > start]
    if not later:
        return None
    room = 0.08 * (max(later) - min(later))
    top = max(later) + room
    return top if room and max(y for _, y in values) > top else None
