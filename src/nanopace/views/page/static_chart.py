"""A chart as a small drawing without scripts, for notebooks, which may strip them.

It shows the shape, the extremes and the ends. For every value, open the page.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from nanopace.views.page.charts import Chart, Series
from nanopace.wording.catalog import Words

WIDTH, HEIGHT = 600, 130
COLUMNS = 200  # keep only the lowest and the highest point of a series in each
MOST_SERIES = 8
_NOT_DRAWN = frozenset(("upright", "interval"))  # forecasts and crossovers


@dataclass(frozen=True, slots=True)
class Stroke:
    label: str
    colour: str
    path: str
    is_line: bool
    faint: bool
    size: float  # of its dots


@dataclass(frozen=True, slots=True)
class Drawing:
    title: str
    strokes: tuple[Stroke, ...]
    x_ends: tuple[str, str]
    y_ends: tuple[str, str]  # lowest, highest
    x_label: str


def draw(chart: Chart, words: Words) -> Drawing | None:
    """Draw a chart; None if it has fewer than two points."""
    series = [one for one in chart.series if one.mark not in _NOT_DRAWN][:MOST_SERIES]
    drawn = [(one, points) for one in series if (points := _points(one, chart))]
    xs, ys = [x for _, points in drawn for x, _ in points], [y for _, points in drawn for _, y in points]
    if len(xs) < 2:
        return None
    across, up = _scale(xs, WIDTH), _scale([_on_axis(y, chart) for y in ys], HEIGHT)
    strokes = []
    for one, points in drawn:
        placed = _thinned([(across(x), HEIGHT - up(_on_axis(y, chart))) for x, y in points])
        is_line = one.mark == "line" and len(points) > 1
        path = _line(placed) if is_line else _dots(placed)
        strokes.append(Stroke(one.label, one.colour, path, is_line, one.faint, 3.0 if one.mark == "dots" else 5.0))
    x, y = _format(chart.x_unit, words), _format(chart.y_unit, words)
    return Drawing(chart.title, tuple(strokes), (x(min(xs)), x(max(xs))), (y(min(ys)), y(max(ys))), chart.x_label)


def _points(one: Series, chart: Chart) -> list[tuple[float, float]]:
    top = math.inf if chart.y_top is None else chart.y_top
    return sorted(
        (x, min(y, top))
        for x, y in zip(one.x, one.y, strict=True)
        if y is not None and math.isfinite(x) and math.isfinite(y) and (y > 0 or not chart.log)
    )


def _on_axis(y: float, chart: Chart) -> float:
    return math.log(y) if chart.log else y


def _scale(values: Sequence[float], length: int) -> Callable[[float], float]:
    low, span = min(values), max(values) - min(values)
    return lambda value: length * (value - low) / span if span > 0 else length / 2


def _thinned(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """No more points than a screen can show."""
    columns: dict[int, list[tuple[float, float]]] = {}
    for point in points:
        columns.setdefault(int(point[0] * COLUMNS / WIDTH), []).append(point)
    kept: list[tuple[float, float]] = []
    for members in columns.values():
        ends = {min(members, key=lambda each: each[1]), max(members, key=lambda each: each[1])}
        kept += sorted(ends)
    return kept


def _line(points: Iterable[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)


def _dots(points: Iterable[tuple[float, float]]) -> str:
    """Lines of length zero with round ends."""
    return "".join(f"M{x:.1f} {y:.1f}h0" for x, y in points)


def _format(unit: str, words: Words) -> Callable[[float], str]:
    if unit == "ms":
        return lambda value: words.duration(value / 1000)
    if unit == "seconds":
        return words.duration
    if unit == "tokens":
        return words.si
    if unit == "count":
        return lambda value: words.count(int(value))
    return lambda value: words.number(value, 3)
