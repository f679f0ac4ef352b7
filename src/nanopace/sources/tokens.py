"""Tokens per iteration, from the printed mfu: they are mfu x peak x time / FLOPs per token."""

from __future__ import annotations

from itertools import pairwise

from nanopace.run import Row, Run

_ROWS = 2000  # that are looked at
_FEWEST = 5


def tokens_of_mfu(run: Run, tokens_per_s: float) -> float | None:
    """Tokens per iteration and GPU; `tokens_per_s` is what an mfu of 1 would be.

    The first mfu that a process prints is not smoothed yet. Without it, the smoothing is undone from row to row, which
    magnifies the rounding twenty times; the median of many rows does for that.
    """
    single = [row for row in run.rows[:_ROWS] if row.count == 1]
    for before, row in pairwise(single):
        if before.mfu is None and row.mfu:
            return row.mfu * row.ms / 1000 * tokens_per_s
    smoothing = run.mfu_smoothing or 0.0
    estimates = sorted(each for pair in pairwise(single) if (each := _unsmoothed(*pair, smoothing)) > 0)
    return estimates[len(estimates) // 2] * tokens_per_s if len(estimates) >= _FEWEST else None


def _unsmoothed(before: Row, row: Row, smoothing: float) -> float:
    """The mfu of a row alone x its seconds; 0 where it is unknown."""
    if before.mfu is None or row.mfu is None:
        return 0.0
    return (row.mfu - smoothing * before.mfu) / (1 - smoothing) * row.ms / 1000
