"""What the page draws: series of points with their labels, before any pixel.

A chart knows its units and the names of its colours, but nothing about HTML or the script that draws it. Colours are
names from the palette in assets/palette.css, so that they can differ by theme; causes also differ by their marks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from nanopace.diagnosis.result import Diagnosis, SlowRow
from nanopace.views.document import run_colour, run_letter
from nanopace.views.report import main_cause, named_causes
from nanopace.wording.catalog import Words

Unit = Literal["count", "tokens", "seconds", "ms", "loss", "share", "rate", "amount"]  # amount: the title has the unit
# An interval is a point with a bar from low to high; an upright is a vertical line across the frame at x.
Mark = Literal[
    "line", "dots", "circle", "square", "diamond", "triangle", "cross", "plus", "ring", "interval", "upright"
]

CAUSE_MARKS: dict[str, Mark] = {
    "restart": "plus",
    "compile": "triangle",
    "stall": "cross",
    "periodic": "square",
    "data": "ring",
    "checkpoint": "diamond",
    "evaluation": "circle",
}
RUN_MARKS: tuple[Mark, ...] = ("circle", "diamond", "square", "triangle", "cross")
RUN_DASHES: tuple[tuple[int, ...], ...] = (
    (),
    (12, 4),
    (2, 3),
    (12, 3, 2, 3),
    (7, 2, 2, 2, 2, 2),
    (20, 3, 3, 3),
    (2, 6),
)
LONGEST_NAME = 24  # of a run in a legend, in characters
DASHED = (6, 4)
MOST_MARKS = 4000  # of one kind: a screen does not have more columns
LOG_FROM = 4.0  # with a larger spread of times, a linear axis would flatten the normal rows


@dataclass(frozen=True, slots=True)
class Series:
    """One kind of mark. `y` is None if there is no value."""

    label: str
    x: tuple[float, ...]
    y: tuple[float | None, ...]
    colour: str
    mark: Mark
    faint: bool = False
    dash: tuple[int, ...] = ()  # of a line: pixels on, off, on ...
    low: tuple[float | None, ...] = ()  # of an interval, or of the band around a line
    high: tuple[float | None, ...] = ()
    smoothable: bool = False  # the page can draw a smoothed line over it


@dataclass(frozen=True, slots=True)
class Places:
    """Maps iterations to positions on an axis of tokens or seconds, as points of a line; charts use it to share their
    zoom."""

    x: tuple[float, ...]
    iteration: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Chart:
    """Everything drawn in one frame."""

    name: str
    title: str
    x_label: str
    x_unit: Unit
    y_label: str
    y_unit: Unit
    series: tuple[Series, ...]
    log: bool = False
    from_zero: bool = False
    y_top: float | None = None  # the frame ends here although values go on
    perplexity: bool = False  # hovering also shows exp(y)
    at: Places | None = None  # None: x is iterations, or several runs have no common mapping
    log_axes: tuple[Literal["x", "y"], ...] = ()  # those that the user may switch
    small: bool = False


def chart_words(words: Words) -> dict[str, str]:
    """The words that the script itself shows."""
    return {
        "row": words.text("{axis} {x}: {values}", axis="{axis}", x="{x}", values="{values}"),
        "smoothing": words.text("Smoothing"),
        "none": words.text("none"),
        "light": words.text("light"),
        "strong": words.text("strong"),
        "smoothed": words.text("smoothed"),
        "log_x": words.text("Log x"),
        "log_y": words.text("Log y"),
        "reset": words.text("Reset zoom"),
    }


# --- iteration times -------------------------------------------------------------------------------------------------


def times_chart(runs: Sequence[Diagnosis], words: Words) -> Chart | None:
    """The time of every row: for one run by the cause of its slow rows, for several runs in their colours."""
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
        log_axes=("y",),
    )


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
        group = main_cause(rows[0])
        each = 1 + len(rows) // MOST_MARKS  # of this many neighbours, the longest is drawn
        shown = [max(rows[at : at + each], key=lambda slow: slow.ms) for at in range(0, len(rows), each)]
        series.append(
            Series(
                label=named_causes(rows[0], words, run),
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
            label=run_name(number, run),
            x=tuple(run.curves.row_iteration),
            y=tuple(_positive(ms) for ms in run.curves.row_ms),
            colour=run_colour(number),
            mark=RUN_MARKS[number % len(RUN_MARKS)],
        )
        for number, run in enumerate(runs)
        if run.timed
    )


# --- names ----------------------------------------------------------------------------------------------------------


def run_dash(number: int) -> tuple[int, ...]:
    """The dash pattern of the n-th run of a comparison."""
    return RUN_DASHES[number % len(RUN_DASHES)]


def run_name(number: int, run: Diagnosis) -> str:
    """For a legend: the letter and the file name, without its middle if it is long."""
    name = run.source.name
    if len(name) > LONGEST_NAME:
        half = LONGEST_NAME // 2
        name = f"{name[: half - 1]}…{name[-half:]}"
    return f"{run_letter(number)} {name}"


def _positive(ms: float | None) -> float | None:
    return ms if ms is not None and math.isfinite(ms) and ms > 0 else None
