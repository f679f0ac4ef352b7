"""Lines that stand at the bottom of a terminal while something runs: what fits into them, and a loss curve for one."""

from __future__ import annotations

import math
from collections.abc import Iterable

from nanopace.views.terminal.sparkline import sparkline

Piece = tuple[str, str]  # a text and its style


class Losses:
    """The loss curve in at most `most` points, however long the run: when they are full, each two become one."""

    def __init__(self, most: int = 256) -> None:
        self._most = most
        self._points: list[tuple[int, float]] = []
        self._each = 1  # steps that a point is the mean of
        self._sum, self._count = 0.0, 0

    def add(self, iteration: int, loss: float) -> None:
        if not math.isfinite(loss):
            return  # the line above the display says so
        self._sum, self._count = self._sum + loss, self._count + 1
        if self._count < self._each:
            return
        self._points.append((iteration, self._sum / self._count))
        self._sum, self._count = 0.0, 0
        if len(self._points) >= self._most:
            pairs = zip(self._points[::2], self._points[1::2], strict=False)
            self._points = [(at, (before + after) / 2) for (_, before), (at, after) in pairs]
            self._each *= 2

    @property
    def points(self) -> list[tuple[int, float]]:
        """Iterations and losses so far."""
        return list(self._points)

    def drawn(self, width: int) -> str:
        points = self.points
        return sparkline([at for at, _ in points], [loss for _, loss in points], [None] * len(points), width).bars


def fitting(parts: Iterable[str], width: int) -> str:
    """As many of the first parts as there is room for; the first one in any case."""
    line = ""
    for part in parts:
        if line and len(line) + 2 + len(part) > width:
            break
        line += f", {part}" if line else part
    return line


def cut(line: list[Piece], width: int) -> list[Piece]:
    """At most so many columns of it."""
    kept = []
    for text, style in line:
        kept.append((text[:width], style))
        width -= len(kept[-1][0])
    return kept
