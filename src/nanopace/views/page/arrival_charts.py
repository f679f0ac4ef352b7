"""Charts of the time to a loss: validation loss over training time and over tokens, with the loss to reach."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from nanopace.diagnosis.compare.arrival import training_curve
from nanopace.diagnosis.comparison import Comparison
from nanopace.diagnosis.result import Diagnosis
from nanopace.record import replace
from nanopace.run import Metric
from nanopace.views.compare.arrival import goal_label
from nanopace.views.document import run_colour, run_letter
from nanopace.views.page.charts import DASHED, Chart, Series, run_dash, run_name
from nanopace.views.page.loss_charts import crossovers, start_clipped
from nanopace.views.page.places import token_places
from nanopace.wording.catalog import Words

Axis = Literal["seconds", "tokens"]


def arrival_charts(comparisons: Sequence[Comparison], words: Words) -> tuple[Chart, ...]:
    """Validation loss over training time and, if known, over tokens, with the losses to reach."""
    metric = next((pair.arrival.metric for pair in comparisons if pair.arrival is not None), None)
    if metric is None:
        return ()
    # Bits per byte and losses have no common axis: the first pair decides which is drawn.
    other = [pair.arrival is not None and pair.arrival.metric != metric for pair in comparisons]
    comparisons = [replace(pair, arrival=None) if hide else pair for pair, hide in zip(comparisons, other, strict=True)]
    runs = {0: comparisons[0].a} | {number: pair.b for number, pair in enumerate(comparisons, 1) if pair.arrival}
    by_time = _chart(runs, comparisons, words, metric, "seconds")
    if not all(run.throughput.tokens_per_iteration for run in runs.values()):
        return (by_time,)
    return (by_time, _chart(runs, comparisons, words, metric, "tokens"))


def _chart(
    runs: dict[int, Diagnosis], comparisons: Sequence[Comparison], words: Words, metric: Metric, axis: Axis
) -> Chart:
    curves = tuple(_curve(number, run, metric, axis) for number, run in runs.items())
    end = max(curve.x[-1] for curve in curves)
    crossed = crossovers(comparisons, words, "tokens") if axis == "tokens" else []  # time would include the start-up
    return Chart(
        name=f"arrival-{axis}",
        title=words.text("Validation loss against training time")
        if axis == "seconds"
        else words.text("Validation loss against tokens"),
        x_label=words.text("Time since the first step") if axis == "seconds" else words.text("Tokens"),
        x_unit=axis,
        y_label=words.metric(metric),
        y_unit="loss",
        series=(*curves, *_goals(comparisons, words, end), *_marks(comparisons, words, axis), *crossed),
        y_top=start_clipped(curves),
        perplexity=metric == "loss",
        at=token_places([*runs.values()]) if axis == "tokens" else None,
        log_axes=("x", "y"),
    )


def _curve(number: int, run: Diagnosis, metric: Metric, axis: Axis) -> Series:
    moments = training_curve(run, metric)
    tokens = run.throughput.tokens_per_iteration or 0.0
    x = tuple(moment.seconds if axis == "seconds" else moment.iteration * tokens for moment in moments)
    y = tuple(moment.val for moment in moments)
    return Series(run_name(number, run), x, y, run_colour(number), "line", dash=run_dash(number))


def _goals(comparisons: Sequence[Comparison], words: Words, end: float) -> list[Series]:
    """A line for each loss to reach; often, all pairs share the first run's best."""
    goals = dict.fromkeys(pair.arrival.target for pair in comparisons if pair.arrival is not None)
    return [Series(goal_label(goal, words), (0.0, end), (goal, goal), "muted", "line", dash=DASHED) for goal in goals]


def _marks(comparisons: Sequence[Comparison], words: Words, axis: Axis) -> list[Series]:
    """Where each run crosses its line. The first run crosses those of all pairs."""
    crossings: dict[int, list[tuple[float, float]]] = {}
    for number, pair in enumerate(comparisons, start=1):
        if pair.arrival is not None:
            for run, reached in ((0, pair.arrival.a), (number, pair.arrival.b)):
                x = reached.seconds if axis == "seconds" else reached.tokens
                if x is not None:
                    crossings.setdefault(run, []).append((x, pair.arrival.target))
    found = []
    for run, points in sorted(crossings.items()):
        once = sorted(set(points))
        label = words.text("{run} reaches it", run=run_letter(run))
        xs, ys = tuple(point[0] for point in once), tuple(point[1] for point in once)
        found.append(Series(label, xs, ys, run_colour(run), "ring"))
    return found
