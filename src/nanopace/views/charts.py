"""What the page draws: series of points with their words, before any pixel.

A chart here knows its units and the names of its colours, and nothing of HTML or of the script that draws it. Colours
are names of the palette in assets/report.css, so that they can differ by theme; causes also differ by their marks.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from nanopace.diagnosis.result import Diagnosis, SlowRow
from nanopace.wording.catalog import Words

Unit = Literal["count", "tokens", "seconds", "ms", "loss", "share"]
Mark = Literal["line", "dashed", "dots", "circle", "square", "diamond", "triangle", "cross", "ring"]

# A slow row often has several causes. It is drawn as the first of these, the one that is the least everyday.
CAUSE_MARKS: dict[str, Mark] = {
    "restart": "cross",
    "compile": "triangle",
    "stall": "cross",
    "periodic": "square",
    "checkpoint": "diamond",
    "evaluation": "circle",
}
RUN_MARKS: tuple[Mark, ...] = ("circle", "diamond", "square", "triangle", "cross")
RUN_COLOURS = 6  # run-1 to run-6 in the palette; a seventh run starts over
MOST_MARKS = 4000  # of one kind: a screen has no more columns
LOG_FROM = 4.0  # a spread of times from which on a linear axis would flatten the normal rows
START_SHARE = 0.05  # the part of a run whose loss may rise above the frame, or nothing else could be told apart


@dataclass(frozen=True, slots=True)
class Series:
    """One kind of mark. `y` is None where there is no value."""

    label: str
    x: tuple[float, ...]
    y: tuple[float | None, ...]
    colour: str
    mark: Mark
    faint: bool = False


@dataclass(frozen=True, slots=True)
class Chart:
    """Everything that is to be drawn in one frame."""

    name: str
    title: str
    x_label: str
    x_unit: Unit
    y_label: str
    y_unit: Unit
    series: tuple[Series, ...]
    log: bool = False
    from_zero: bool = False
    y_top: float | None = None  # the frame ends here, although values go on
    perplexity: bool = False  # a hover also says exp(y)


# --- iteration times -------------------------------------------------------------------------------------------------


def times_chart(runs: Sequence[Diagnosis], words: Words) -> Chart | None:
    """Milliseconds of every row: one run by the cause of its slow rows, several runs each in its colour."""
    series = _times_by_cause(runs[0], words) if len(runs) == 1 else _times_by_run(runs)
    times = [y for one in series for y in one.y if y is not None and y > 0]
    if not times:
        return None
    return Chart(
        name="times",
        title=words.text("Iteration times"),
        x_label=words.text("Iteration"),
        x_unit="count",
        y_label=words.text("Time of the row"),
        y_unit="ms",
        series=series,
        log=max(times) > LOG_FROM * min(times),
    )


def row_group(slow: SlowRow) -> str:
    """The cause that gives a slow row its colour and its mark."""
    return next((cause for cause in CAUSE_MARKS if cause in slow.causes), "stall")


def named_causes(slow: SlowRow, words: Words) -> str:
    """All causes of a slow row, as the legend has them."""
    return " + ".join(words.cause(cause) for cause in slow.causes) or words.text("unknown")


def _times_by_cause(run: Diagnosis, words: Words) -> tuple[Series, ...]:
    curves = run.curves
    normal = [index for index, cause in enumerate(curves.row_cause) if cause is None]
    series = [
        Series(
            label=words.text("normal"),
            x=tuple(curves.row_iteration[index] for index in normal),
            y=tuple(_positive(curves.row_ms[index]) for index in normal),
            colour="training",
            mark="dots",
        )
    ]
    by_causes: dict[tuple[str, ...], list[SlowRow]] = {}
    for slow in run.slow_rows:
        by_causes.setdefault(slow.causes, []).append(slow)
    for rows in sorted(by_causes.values(), key=len, reverse=True):
        group = row_group(rows[0])
        shown = rows[:: 1 + len(rows) // MOST_MARKS]
        series.append(
            Series(
                label=named_causes(rows[0], words),
                x=tuple(slow.iteration for slow in shown),
                y=tuple(_positive(slow.ms) for slow in shown),
                colour=group,
                mark=CAUSE_MARKS[group],
            )
        )
    return tuple(series)


def _times_by_run(runs: Sequence[Diagnosis]) -> tuple[Series, ...]:
    return tuple(
        Series(
            label=run_letter(number),
            x=tuple(run.curves.row_iteration),
            y=tuple(_positive(ms) for ms in run.curves.row_ms),
            colour=run_colour(number),
            mark=RUN_MARKS[number % len(RUN_MARKS)],
        )
        for number, run in enumerate(runs)
    )


# --- loss ------------------------------------------------------------------------------------------------------------


def loss_charts(runs: Sequence[Diagnosis], words: Words) -> tuple[Chart, ...]:
    """Loss against tokens (iterations where a run's tokens are unknown) and against time."""
    in_tokens = all(run.throughput.tokens_per_iteration for run in runs)
    by_tokens = _loss_chart(runs, words, "tokens" if in_tokens else "iteration")
    return tuple(chart for chart in (by_tokens, _loss_chart(runs, words, "seconds")) if chart is not None)


def _loss_chart(
    runs: Sequence[Diagnosis], words: Words, against: Literal["tokens", "iteration", "seconds"]
) -> Chart | None:
    series = tuple(
        one
        for number, run in enumerate(runs)
        for one in _loss_series(run, words, against, number if len(runs) > 1 else None)
        if any(y is not None for y in one.y)
    )
    if not series:
        return None
    x_label, x_unit = _loss_axis(against, words)
    metric = runs[0].loss.metric
    return Chart(
        name=f"loss-{against}",
        title={
            "tokens": words.text("Loss against tokens"),
            "iteration": words.text("Loss against iterations"),
            "seconds": words.text("Loss against time"),
        }[against],
        x_label=x_label,
        x_unit=x_unit,
        y_label=words.metric(metric),
        y_unit="loss",
        series=series,
        y_top=start_clipped(series),
        perplexity=metric == "loss",
    )


def _loss_axis(against: str, words: Words) -> tuple[str, Unit]:
    if against == "tokens":
        return words.text("Tokens"), "tokens"
    if against == "iteration":
        return words.text("Iteration"), "count"
    return words.text("Wall clock"), "seconds"


def _loss_series(run: Diagnosis, words: Words, against: str, number: int | None) -> Iterable[Series]:
    """Of one run alone (number None) in the colours of the splits, or of several in the colours of the runs."""
    curves = run.curves
    scale = run.throughput.tokens_per_iteration or 1.0 if against == "tokens" else 1.0
    if against == "seconds":
        row_x, eval_x = tuple(curves.row_seconds), tuple(curves.eval_seconds)
    else:
        row_x = tuple(iteration * scale for iteration in curves.row_iteration)
        eval_x = tuple(iteration * scale for iteration in curves.eval_iteration)
    alone = number is None
    own = "" if number is None else run_colour(number)
    before = "" if number is None else f"{run_letter(number)}: "
    if run.loss.metric in ("loss", "bpc"):  # a printed loss has no place on an axis of bits per byte
        label = before + words.text("printed")
        yield Series(label, row_x, tuple(curves.row_loss), own or "training", "line", faint=True)
    if alone:
        yield Series(words.text("training"), eval_x, tuple(curves.eval_train), "evaluation", "dashed")
    yield Series(before + words.text("validation"), eval_x, tuple(curves.eval_val), own or "checkpoint", "line")
    if alone and run.loss.best_val_iteration in curves.eval_iteration:
        best = curves.eval_iteration.index(run.loss.best_val_iteration)
        label = words.text("best, saved") if curves.eval_saved[best] else words.text("best, not saved")
        yield Series(label, (eval_x[best],), (curves.eval_val[best],), "best", "ring")


def start_clipped(series: Sequence[Series]) -> float | None:
    """The highest loss once the first few per cent of the run are over; None if nothing rises far above it."""
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


# --- mfu -------------------------------------------------------------------------------------------------------------


def mfu_chart(runs: Sequence[Diagnosis], words: Words) -> Chart | None:
    """As printed, without the evaluation in it, and of the card that ran."""
    series = tuple(
        one
        for number, run in enumerate(runs)
        for one in _mfu_series(run, words, number if len(runs) > 1 else None)
        if any(y is not None for y in one.y)
    )
    if not series:
        return None
    return Chart(
        name="mfu",
        title=words.text("GPU utilisation (mfu)"),
        x_label=words.text("Iteration"),
        x_unit="count",
        y_label="mfu",
        y_unit="share",
        series=series,
        from_zero=True,
    )


def _mfu_series(run: Diagnosis, words: Words, number: int | None) -> Iterable[Series]:
    curves, mfu = run.curves, run.mfu
    x = tuple(float(iteration) for iteration in curves.row_iteration)
    own = "" if number is None else run_colour(number)
    before = "" if number is None else f"{run_letter(number)}: "
    printed = words.text("as printed")
    yield Series(before + printed, x, tuple(curves.row_mfu_printed), own or "checkpoint", "line", faint=bool(own))
    if number is None:
        yield Series(words.text("without evaluation rows"), x, tuple(curves.row_mfu_true), "evaluation", "line")
    if mfu.card_tflops and mfu.printed_peak_tflops:
        ratio = mfu.printed_peak_tflops / mfu.card_tflops
        of_card = tuple(None if value is None else value * ratio for value in curves.row_mfu_true)
        label = words.text("of the {card}", card=mfu.card_name or "")
        yield Series(before + label, x, of_card, own or "best", "line" if own else "dashed")
    elif number is not None:
        yield Series(before + words.text("without evaluation rows"), x, tuple(curves.row_mfu_true), own, "line")


# --- names ----------------------------------------------------------------------------------------------------------


def run_colour(number: int) -> str:
    """The palette's name for the n-th run of a comparison."""
    return f"run-{number % RUN_COLOURS + 1}"


def run_letter(number: int) -> str:
    """A, B, C ...: how tables and charts call the n-th run of a comparison."""
    return chr(ord("A") + number) if number < 26 else f"R{number + 1}"


def _positive(ms: float) -> float | None:
    return ms if math.isfinite(ms) and ms > 0 else None
