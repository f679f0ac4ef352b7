"""The learning rates that a log prints, thinned out to a few hundred of a run: enough to see its schedule."""

from __future__ import annotations

import re

_MOST = 512
_PRINTED = re.compile(
    r"(?<![\w.])(?:lr|learning rate)\s{0,4}[:=]?\s{0,4}(\d{1,3}(?:\.\d{1,20})?(?:[eE][+-]?\d{1,3})?)(?![\w.])", re.ASCII
)


class Rates:
    """Rates by iteration. The first one and the last one are always kept."""

    def __init__(self) -> None:
        self._found: list[tuple[int, float]] = []
        self._apart = 0  # iterations

    def __copy__(self) -> Rates:
        twin = Rates()
        twin._found, twin._apart = [*self._found], self._apart
        return twin

    def add(self, iteration: int, rate: float) -> None:
        """Add the rate of a row. A run that goes back repeats its rows, so those from there on are dropped."""
        found = self._found
        while found and found[-1][0] >= iteration:
            found.pop()
        if len(found) > 1 and iteration - found[-2][0] < self._apart:
            found.pop()
        found.append((iteration, rate))
        if len(found) > _MOST:
            del found[1:-1:2]
            self._apart = (found[-1][0] - found[0][0]) // (_MOST // 2)

    def add_all(self, others: Rates) -> None:
        for iteration, rate in others.in_order():
            self.add(iteration, rate)

    def in_order(self) -> tuple[tuple[int, float], ...]:
        return tuple(self._found)


def printed_rate(text: str) -> float | None:
    """The learning rate in a row, such as "| lr 6.00e-04 |" or "learning rate: 1.0E-04"."""
    found = _PRINTED.search(text) if "lr" in text or "learning rate" in text else None
    return float(found[1]) if found else None
