"""The baseline: where the step time changed for good, where it crept, and what it is around each row.

A card that throttles, or that spills into system memory, goes from one level to another between two rows; a card that
warms up drifts. Binary segmentation finds the first; what a straight line explains as well is the second.
All values here are logarithms of times, so a difference of 0.03 is three per cent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate, pairwise

from nanopace.diagnosis.medians import median, rolling_median

MOST_BLOCKS = 500  # of a long log the medians of that many blocks are looked at
LEAST_ROWS = 5  # on either side of a shift: fewer are stalls
LEAST_SHIFT = math.log(1.03)
LEAST_AREA = 0.3  # rows x shift: 5 rows must differ by 6%, 10 by 3%; a cluster of uneven rows is not a level
LEAST_GAIN = 25.0  # in squared noise: what chance does not give within 500 blocks
HALF_WINDOW = 25  # neighbours on either side: enough to be robust, few enough to follow what creeps
NEIGHBOURHOOD = 25  # blocks on either side in which the jump itself must show, else it is a drift
LEAST_NOISE = 0.005

TREND_ROWS = 30  # fewer have no trend that could be told from a few slow rows
DRIFT_PARTS = 8
LEAST_DRIFT = 0.02


def level_starts(logs: Sequence[float]) -> list[int]:
    """Positions at which a new level begins, the first of them 0."""
    size = math.ceil(len(logs) / MOST_BLOCKS)
    blocks = [median(logs[at : at + size]) for at in range(0, len(logs), size)] if size > 1 else logs
    smooth = rolling_median(blocks, LEAST_ROWS - 1)  # takes spikes out and leaves the edges of levels where they are
    deviation = median(abs(raw - level) for raw, level in zip(blocks, smooth, strict=True))
    noise = max(LEAST_NOISE, deviation / 0.6745)

    starts = [0]
    pending = [(0, len(blocks))]
    while pending:
        begin, end = pending.pop()
        split = _best_split(smooth, begin, end, noise)
        if split is not None and _jumps(blocks, begin, split, end):
            starts.append(split)
            pending += [(begin, split), (split, end)]
    return [start * size for start in _merged(blocks, sorted(starts))]


def baseline(logs: Sequence[float]) -> list[float]:
    """The rolling median of one level, around its trend: at the ends it has neighbours on one side only."""
    third = len(logs) // 3 if len(logs) >= TREND_ROWS else 0
    slope = (median(logs[-third:]) - median(logs[:third])) / (len(logs) - third) if third else 0.0
    flat = [value - slope * position for position, value in enumerate(logs)]
    return [value + slope * position for position, value in enumerate(rolling_median(flat, HALF_WINDOW))]


def drift(logs: Sequence[float]) -> float | None:
    """How far the level crept from the first to the last row, as a fraction, if it did so steadily by 2% or more."""
    if len(logs) < 4 * DRIFT_PARTS:
        return None
    bounds = [len(logs) * part // DRIFT_PARTS for part in range(DRIFT_PARTS + 1)]
    parts = [logs[begin:end] for begin, end in pairwise(bounds)]
    centres = [median(part) for part in parts]
    noise = median(abs(value - centre) for part, centre in zip(parts, centres, strict=True) for value in part) / 0.6745
    change = (centres[-1] - centres[0]) * DRIFT_PARTS / (DRIFT_PARTS - 1)
    against = sum((after - before) * change < 0 for before, after in pairwise(centres))
    uncertain = 5 * 1.25 * noise * math.sqrt(2 * DRIFT_PARTS / len(logs))  # five standard errors of two medians
    share = math.expm1(change)
    return share if abs(share) >= LEAST_DRIFT and against <= 1 and abs(change) > uncertain else None


def _best_split(smooth: Sequence[float], begin: int, end: int, noise: float) -> int | None:
    """Where two levels explain a stretch best, if they do so better than chance and better than a straight line."""
    count = end - begin
    if count < 2 * LEAST_ROWS:
        return None
    centre = smooth[begin]  # keeps the sums small, and with them the rounding
    values = [value - centre for value in smooth[begin:end]]
    sums = list(accumulate(values))
    total = sums[-1]
    gain, split = max(
        ((sums[left - 1] - total * left / count) ** 2 * count / (left * (count - left)), left)
        for left in range(LEAST_ROWS, count - LEAST_ROWS + 1)
    )
    middle = (count - 1) / 2
    along = sum((position - middle) * value for position, value in enumerate(values))
    line_gain = along**2 * 12 / (count * (count**2 - 1))
    return begin + split if gain > LEAST_GAIN * noise**2 and gain > line_gain else None


def _jumps(blocks: Sequence[float], begin: int, split: int, end: int) -> bool:
    """Whether the change is there at the split itself, in enough rows and large enough for their number."""
    before = blocks[max(begin, split - NEIGHBOURHOOD) : split]
    after = blocks[split : min(end, split + NEIGHBOURHOOD)]
    low, high = median(before), median(after)
    jump, middle = abs(high - low), (low + high) / 2
    rises = high > low
    showing = min(sum((value > middle) != rises for value in before), sum((value > middle) == rises for value in after))
    large = jump >= LEAST_SHIFT and jump * min(split - begin, end - split) >= LEAST_AREA
    return large and showing >= LEAST_ROWS


def _merged(blocks: Sequence[float], starts: list[int]) -> list[int]:
    """Without the splits that turn out to separate like from like once their neighbours are known."""
    kept = [0]
    for start, end in pairwise([*starts[1:], len(blocks)]):
        if abs(median(blocks[start:end]) - median(blocks[kept[-1] : start])) >= LEAST_SHIFT:
            kept.append(start)
    return kept
