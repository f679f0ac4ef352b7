"""Iteration times on one line, with the slow rows marked below it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from nanopace.record import Record

LEVELS = "▁▂▃▄▅▆▇█"
FULL = "█"
SHORTEST = 0.001  # ms: logarithms of smaller values are not worth drawing

# One letter per cause, the same in every language: they are explained below the line.
LETTERS: Mapping[str, str] = {
    "compile": "S",
    "evaluation": "E",
    "checkpoint": "C",
    "restart": "R",
    "periodic": "P",
    "data": "D",
    "stall": "!",
}


class Sparkline(Record):
    bars: str
    marks: str  # a letter under each column with a slow row, else a space
    causes: tuple[str, ...]  # those marked, in the order of LETTERS


def sparkline(iterations: Sequence[int], times: Sequence[float], causes: Sequence[str | None], width: int) -> Sparkline:
    """The largest time of each column, on a logarithmic scale: a spike may be 30 times a step, a level shift only half
    of one."""
    if not times:
        return Sparkline("", "", ())
    columns = min(width, len(times))
    first, length = iterations[0], max(1, iterations[-1] - iterations[0])
    tallest: list[float | None] = [None] * columns
    marks: list[str | None] = [None] * columns
    for iteration, ms, cause in zip(iterations, times, causes, strict=True):
        column = min(columns - 1, (iteration - first) * columns // length)
        before = tallest[column]
        if before is None or ms > before:
            tallest[column] = ms
        if cause is not None and (marks[column] is None or _rank(cause) > _rank(marks[column] or "")):
            marks[column] = cause
    normal = sorted(ms for ms, cause in zip(times, causes, strict=True) if cause is None)
    return Sparkline(
        bars=_bars(tallest, normal[len(normal) // 2] if normal else math.inf),
        marks="".join(" " if cause is None else LETTERS.get(cause, "!") for cause in marks),
        causes=tuple(cause for cause in LETTERS if cause in marks),
    )


def _rank(cause: str) -> int:
    """The rarer cause wins if two share a column."""
    ranks = ("evaluation", "checkpoint", "data", "periodic", "stall", "restart", "compile")
    return ranks.index(cause) if cause in LETTERS else -1


def _bars(tallest: Sequence[float | None], step: float) -> str:
    """Bars from a normal step upwards: in a long log, every column has a slow row, and all of them are high."""
    heights = [None if ms is None else math.log(max(ms, SHORTEST)) for ms in tallest]
    known = [height for height in heights if height is not None]
    low = min(*known, math.log(max(step, SHORTEST)))
    # Do not exaggerate noise: the top is at least 1.5 times the bottom.
    scale = (len(LEVELS) - 1) / max(max(known) - low, math.log(1.5))
    return "".join(" " if height is None else LEVELS[round(scale * (height - low))] for height in heights)


def bar(share: float, width: int) -> str:
    """A horizontal bar; from 0.1% on, at least one mark."""
    return FULL * max(1 if share >= 0.001 else 0, round(share * width))
