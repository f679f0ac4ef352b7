"""How far apart rows and evaluations are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable


def usual_spacing(groups: Iterable[tuple[int, int, int]]) -> int | None:
    """The most frequent distance, from first, last and count of each group. Overlapping groups count as one."""
    spacings = _spacings(groups)
    return spacings.most_common(1)[0][0] if spacings else None


def longest_spacing(groups: Iterable[tuple[int, int, int]], *, least: int = 1) -> int | None:
    """The distance that accounts for the most iterations, if it was found `least` times. Several rows may be closer
    together than all others, as the first ten of a trainer that prints each of these and then every 500th."""
    spacings = _spacings(groups)
    longest = max(spacings, key=lambda each: (each * spacings[each], each), default=None)
    return longest if longest is not None and spacings[longest] >= least else None


def _spacings(groups: Iterable[tuple[int, int, int]]) -> Counter[int]:
    spacings: Counter[int] = Counter()
    start = reach = inside = 0
    for first, last, count in sorted(groups):
        if inside and first <= reach:
            reach, inside = max(reach, last), inside + count
            continue
        if inside:
            _add_spacing(spacings, start, reach, inside)
            spacings[first - reach] += 1
        start, reach, inside = first, last, count
    _add_spacing(spacings, start, reach, inside)
    return spacings


def _add_spacing(spacings: Counter[int], first: int, last: int, count: int) -> None:
    if count > 1:
        spacings[(last - first) // (count - 1)] += count - 1
