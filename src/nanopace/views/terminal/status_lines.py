"""Lines at the bottom of a terminal while something runs: fitting text into them, and a loss curve."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise

from nanopace.views.terminal.sparkline import LEVELS

Piece = tuple[str, str]  # a text and its style
_ENOUGH = 40  # points of a curve


class Losses:
    """The loss curve in at most `most` points, however long the run: when it is full, neighbours are merged in
    pairs."""

    def __init__(self, most: int = 256) -> None:
        self._most = most
        self._points: list[tuple[int, float]] = []
        self._each = 1  # steps that a point is the mean of
        self._sum, self._count = 0.0, 0

    def add(self, iteration: int, loss: float) -> None:
        if not math.isfinite(loss):
            return  # a line above the display reports it
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

    def curve(self, width: int) -> tuple[str, float, float]:
        """The curve on its own scale, its lowest and its highest loss.

        Once there is enough to see, the first tenth is left out: it falls so steeply that the rest would look flat.
        """
        shown = [loss for _, loss in self.points]
        shown = shown[len(shown) // 10 :] if len(shown) >= _ENOUGH else shown
        count = min(width, len(shown))
        edges = [len(shown) * number // max(1, count) for number in range(count + 1)]
        means = [sum(shown[begin:end]) / (end - begin) for begin, end in pairwise(edges)]
        low, high = min(means, default=0.0), max(means, default=0.0)
        top = len(LEVELS) - 1
        bars = (round(top * (mean - low) / (high - low)) if high > low else top // 2 for mean in means)
        return "".join(LEVELS[bar] for bar in bars), low, high


def fitting(parts: Iterable[str], width: int) -> str:
    """As many of the first parts as fit; always at least the first."""
    line = ""
    for part in parts:
        if line and len(line) + 2 + len(part) > width:
            break
        line += f", {part}" if line else part
    return line


def cut(line: list[Piece], width: int) -> list[Piece]:
    """The first `width` columns of a line."""
    kept = []
    for text, style in line:
        kept.append((text[:width], style))
        width -= len(kept[-1][0])
    return kept
