"""The baseline: where the step time changed for good, where it drifted, and its value around each row.

A card that throttles or spills into system memory changes its level between two rows; a card that warms up drifts.
Binary segmentation proposes level shifts, and a rank test rejects the false ones; whatever a straight line explains
equally well is a drift. All values here are logarithms of times, so a difference of 0.03 is three per cent.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, pairwise

from nanopace.medians import median, rank_difference, rank_trend, rolling_median, weighted_median

MOST_BLOCKS = 500  # a long log is reduced to the medians of this many blocks
LEAST_ROWS = 5  # on either side of a shift: fewer are stalls
SHORT_LOG, LEAST_OF_SHORT = 25, 4  # if there are few rows, a sixth of them is more than a stall
LEAST_SHIFT = math.log(1.03)
LEAST_AREA = 0.3  # rows x shift: 5 rows must differ by 6%, 10 by 3%; a cluster of uneven rows is not a level
LEAST_STALL = math.log(1.25)
LEAST_GAIN = 25.0  # in squared noise: unlikely by chance within 500 blocks
HALF_WINDOW = 25  # neighbours on either side: enough to be robust, few enough to follow a drift
NEAR = (5, 2)  # used instead where the level changes among them
BESIDE, ALIKE = 9, 6  # more than so many of ten in a row take equally long, ...
LEAST_ALIKE = 9  # ... and so many of those around: no stalls, but a short level
LIKE = 3.5  # times the noise: rows this close take equally long
NEIGHBOURHOOD = 25  # blocks on either side in which the jump itself must show, else it is a drift
SURE_OF_TREND = 4.2  # standard errors
SURELY = 4.5  # standard errors between the two sides of a jump ...
SURE_OF_JUMP = 6.0  # standard errors of the shorter side's median: few rows may differ by chance
SURE_OF_PLACE = 3.0  # standard errors between the medians of its neighbourhoods
NEARLY, ALL = 0.93, 0.98  # ... or, for few rows, this share of the statistic for two sides that do not overlap
AT_ONCE = 2 / 3  # of a jump must occur within its first rows; a slow warm-up is not a level
LEAST_NOISE = 0.005
MAD = 0.6745  # median absolute deviation of normal noise over its standard deviation
MEDIAN_ERROR = 1.25  # the standard error of a median over that of a mean

LEAST_FIFTH = 8  # rows: fewer may differ by chance
DRIFT_PARTS = 8
LEAST_DRIFT = 0.02
MOST_LOG = 500.0  # of a ratio: more would overflow, and is not a time anyway
SURE_OF_DRIFT = 24  # standard errors of one part: the shape of a smaller change is unclear
JUMP_PARTS = 20  # of the run: neighbouring stretches are compared to find a jump
STRAIGHT = 0.12  # of the total change: each part of a drift is this close to a straight line


def level_starts(logs: Sequence[float]) -> list[int]:
    """Positions where a new level starts; the first is 0."""
    size, blocks = _blocks(logs)
    least = LEAST_ROWS if len(blocks) >= SHORT_LOG else LEAST_OF_SHORT
    smooth = rolling_median(blocks, least - 1)  # removes spikes and keeps the edges of levels
    deviation = median(abs(raw - level) for raw, level in zip(blocks, smooth, strict=True))
    noise = max(LEAST_NOISE, deviation / MAD)

    starts = [0]
    pending = [(0, len(blocks))]
    while pending:
        begin, end = pending.pop()
        split = _best_split(smooth, begin, end, least, noise)
        if split is not None:
            starts.append(split)
            pending += [(begin, split), (split, end)]
    found = _drop_false_splits(blocks, smooth, sorted(starts), least, noise)
    if size == 1:
        return _move_starts(logs, found)
    return [0, *(_move_to_row(logs, start * size, size) for start in found[1:])]


def baseline(logs: Sequence[float]) -> list[float]:
    """The rolling median of one level around its drift; at the ends, there are neighbours on one side only."""
    slope = _slope(logs)
    flat = [value - slope * position for position, value in enumerate(logs)]
    return [value + slope * position for position, value in enumerate(_local_median(flat))]


def _slope(logs: Sequence[float]) -> float:
    """The slope per row if a straight line is beyond doubt; for few rows, their thirds show it."""
    if len(logs) >= 4 * DRIFT_PARTS:
        return math.log1p(drift(logs) or 0.0) / len(logs)
    third = len(logs) // 3
    if third < LEAST_OF_SHORT:
        return 0.0
    first, middle, last = (median(logs[begin : begin + third]) for begin in (0, third, len(logs) - third))
    slope = (last - first) / (len(logs) - third)
    off = [value - slope * position for position, value in enumerate(logs)]
    centre = median(off)
    noise = max(LEAST_NOISE, median(abs(each - centre) for each in off) / MAD)
    straight = abs(middle - (first + last) / 2) <= STRAIGHT * abs(last - first)
    return slope if straight and abs(last - first) > SURELY * MEDIAN_ERROR * noise * math.sqrt(2 / third) else 0.0


def _local_median(values: Sequence[float]) -> list[float]:
    """The rolling median, over fewer neighbours where they clearly differ from the rest: the level changes there."""
    found, noise = rolling_median(values, HALF_WINDOW), 0.0
    for half in NEAR:
        last = len(values) - 1 - half
        if last < half:
            break
        local = rolling_median(values, half)
        local = [local[min(max(position, half), last)] for position in range(len(values))]
        off = median(abs(value - each) for value, each in zip(values, local, strict=True)) / MAD
        noise = max(noise, off, LEAST_NOISE)
        apart = SURELY * MEDIAN_ERROR * noise / math.sqrt(2 * half + 1)
        for position, (level, near) in enumerate(zip(found, local, strict=True)):
            centre = min(max(position, half), last)
            if near < level - apart or (near > level + apart and not _is_stalled(values, centre, half, level + apart)):
                found[position] = near
    return [max(level, _of_like_rows(values, position, level, noise)) for position, level in enumerate(found)]


def _of_like_rows(values: Sequence[float], position: int, level: float, noise: float) -> float:
    """The level of the rows that take as long as this one, if there are several and most of some in a row do: a level
    whose rows are too few, or too often held up, to be found."""
    value, near = values[position], LIKE * noise
    if value <= level + near:
        return level
    begin = max(0, position - 2 * BESIDE)
    alike = [abs(each - value) <= near for each in values[begin : position + 2 * BESIDE + 1]]
    own = position - begin
    windows = (alike[at : at + BESIDE + 1] for at in range(max(0, own - BESIDE), own + 1))
    if sum(alike) < LEAST_ALIKE or max(map(sum, windows)) <= ALIKE:
        return level
    return median(value for value, like in zip(values[begin:], alike, strict=False) if like)


def _is_stalled(values: Sequence[float], centre: int, half: int, most: float) -> bool:
    """Whether these rows are slow because some contain stalls, not because their level is higher."""
    return half < LEAST_ROWS or sorted(values[centre - half : centre + half + 1])[half // 2] <= most


def drift(logs: Sequence[float]) -> float | None:
    """How far the level drifted from the first to the last row, as a fraction, if by 2% or more, along a straight line
    and without a visible jump."""
    if len(logs) < 4 * DRIFT_PARTS:
        return None
    bounds = [len(logs) * part // DRIFT_PARTS for part in range(DRIFT_PARTS + 1)]
    parts = [logs[begin:end] for begin, end in pairwise(bounds)]
    centres = [median(part) for part in parts]
    noise = median(abs(value - centre) for part, centre in zip(parts, centres, strict=True) for value in part) / MAD
    whole = centres[-1] - centres[0]
    uncertain = MEDIAN_ERROR * noise * math.sqrt(DRIFT_PARTS / len(logs))  # standard error of one part's median
    line = [centres[0] + whole * part / (DRIFT_PARTS - 1) for part in range(DRIFT_PARTS)]
    astray = max(abs(centre - along) for centre, along in zip(centres, line, strict=True))
    straight = astray <= STRAIGHT * abs(whole) and abs(whole) > SURE_OF_DRIFT * uncertain
    change = min(whole * DRIFT_PARTS / (DRIFT_PARTS - 1), MOST_LOG)
    if abs(math.expm1(change)) < LEAST_DRIFT or not straight:
        return None
    flat = [value - change * position / len(logs) for position, value in enumerate(logs)]
    return None if _has_jump(flat, noise) else math.expm1(change)


def _has_jump(flat: Sequence[float], noise: float) -> bool:
    """Whether neighbouring stretches differ anywhere: a jump on a slope shows there, but not in the levels."""
    width = max(LEAST_ROWS, len(flat) // JUMP_PARTS)
    centres = rolling_median(flat, width // 2)
    least = max(LEAST_SHIFT / 2, 5 * MEDIAN_ERROR * noise * math.sqrt(2 / width))
    return any(abs(after - before) > least for before, after in zip(centres, centres[width:], strict=False))


def trend(logs: Sequence[float]) -> int:
    """1 if the values certainly rise along the run, -1 if they certainly fall, in any shape; else 0."""
    _, blocks = _blocks(logs)
    if abs(surely := rank_trend(blocks)) >= SURE_OF_TREND:
        return 1 if surely > 0 else -1
    fifth = len(blocks) // 5  # an early rise that stays has little trend
    if fifth < LEAST_FIFTH or not _differ(blocks[:fifth], blocks[-fifth:], ALL):
        return 0
    return 1 if rank_difference(blocks[:fifth], blocks[-fifth:]) > 0 else -1


def _blocks(logs: Sequence[float]) -> tuple[int, Sequence[float]]:
    """The number of rows per block, and each block's median."""
    size = math.ceil(len(logs) / MOST_BLOCKS)
    return size, [median(logs[at : at + size]) for at in range(0, len(logs), size)] if size > 1 else logs


def _move_to_row(logs: Sequence[float], start: int, size: int) -> int:
    """The row at which the level changes, within one block on either side."""
    low, high = median(logs[max(0, start - 3 * size) : start - size]), median(logs[start + size : start + 3 * size])
    middle, rises = (low + high) / 2, high > low
    near = range(start - size, start + size)
    # +1 for each row like those before, -1 for each like those after: the maximum is where they change.
    before = accumulate(1 if (logs[position] <= middle) == rises else -1 for position in near)
    best = max(zip(before, near, strict=True), key=lambda each: each[0])
    return best[1] + 1 if best[0] > 0 else start - size


def _move_starts(logs: Sequence[float], starts: Sequence[int]) -> list[int]:
    """The starts, each moved past the few rows that belong to its other side."""
    moved = [0]
    for at, end in zip(starts[1:], [*starts[2:], len(logs)], strict=False):
        before, after = median(logs[moved[-1] : at]), median(logs[at:end])
        middle, rises = (before + after) / 2, after > before
        while at - 1 > moved[-1] and (logs[at - 1] > middle) == rises:
            at -= 1
        while at + 1 < end and (logs[at] > middle) != rises:
            at += 1
        moved.append(at)
    return moved


def _best_split(smooth: Sequence[float], begin: int, end: int, least: int, noise: float) -> int | None:
    """The split at which two levels explain a stretch best, if better than chance. A straight line may explain it
    better, but it also does for levels that rise like stairs, so drifts are recognised only once all splits are
    known."""
    count = end - begin
    if count < 2 * least:
        return None
    centre = smooth[begin]  # keeps the sums, and so the rounding errors, small
    values = [value - centre for value in smooth[begin:end]]
    sums = list(accumulate(values))
    total = sums[-1]
    gain, split = max(
        ((sums[left - 1] - total * left / count) ** 2 * count / (left * (count - left)), left)
        for left in range(least, count - least + 1)
    )
    return begin + split if gain > LEAST_GAIN * noise**2 else None


def _drop_false_splits(
    blocks: Sequence[float], smooth: Sequence[float], starts: list[int], least: int, noise: float
) -> list[int]:
    """Drop splits between equal levels, least certain first, and place the neighbours of each again."""
    while True:
        for number in range(1, len(starts)):
            begin, end = starts[number - 1], [*starts, len(blocks)][number + 1]
            starts[number] = _best_split(smooth, begin, end, least, noise) or starts[number]
        rejected = []
        for begin, at, end in zip(starts, starts[1:], [*starts[2:], len(blocks)], strict=False):
            before, after = blocks[begin:at], blocks[at:end]
            if not _is_level_shift(before, after, least, noise):
                rejected.append((abs(rank_difference(before, after)), at))
        if not rejected:
            return starts
        starts = [start for start in starts if start != min(rejected)[1]]


def _is_level_shift(before: Sequence[float], after: Sequence[float], least: int, noise: float) -> bool:
    """Whether the level really changes here: beyond chance, by enough, in enough rows, and at once."""
    slow = max(median(before), median(after)) + LEAST_STALL + noise  # anything above is a stall, not a level
    before, after = ([value for value in side if value <= slow] for side in (before, after))
    if min(len(before), len(after)) < least:
        return False
    jump = median(after) - median(before)
    if abs(jump) < LEAST_SHIFT or not _differ(before, after, NEARLY):
        return False
    shorter = min(len(before), len(after))
    here = abs(median(after[:least]) - median(before[-least:]))
    if _is_drift(before, after, least) or (shorter < NEIGHBOURHOOD and here < AT_ONCE * abs(jump) - noise / 2):
        return False
    before, after = before[-NEIGHBOURHOOD:], after[:NEIGHBOURHOOD]
    low, high = sorted((median(before), median(after)))
    middle, rises = (low + high) / 2, jump > 0
    showing = min(sum((value > middle) != rises for value in before), sum((value > middle) == rises for value in after))
    error = MEDIAN_ERROR * noise * math.sqrt(1 / len(before) + 1 / len(after))
    by_chance = max(SURE_OF_JUMP * noise / math.sqrt(shorter), SURE_OF_PLACE * error)
    least_shift = max(LEAST_SHIFT, LEAST_AREA / shorter, by_chance)
    return min(high - low, abs(jump)) >= least_shift and showing >= least


def _differ(before: Sequence[float], after: Sequence[float], nearly: float) -> bool:
    """Whether the two sides differ by more than their scatter, whatever its distribution; with few rows, `nearly` all
    of one side must lie beyond the other."""
    most = rank_difference([0.0] * len(before), [1.0] * len(after))
    return abs(rank_difference(before, after)) >= min(SURELY, nearly * most)


def _is_drift(before: Sequence[float], after: Sequence[float], least: int) -> bool:
    """Whether a straight line, through equally many rows on both sides, explains the change better than a jump."""
    width = min(len(before), len(after))
    values = rolling_median([*before[-width:], *after[:width]], least - 1)
    centre = sum(values) / (2 * width)
    of_jump = 2 * width * (sum(values[:width]) / width - centre) ** 2  # part of the squares around the centre
    along = sum(position * (value - centre) for position, value in enumerate(values))
    return along**2 * 12 / (2 * width * (4 * width**2 - 1)) > of_jump


def fifths(times: Sequence[float], weights: Sequence[int]) -> tuple[float, float]:
    """The step time in the first fifth of the rows, and in the last."""
    return _fifth(times, weights), _fifth(times[::-1], weights[::-1])


def _fifth(times: Sequence[float], weights: Sequence[int]) -> float:
    """The median of the first fifth of the rows."""
    end = max(1, bisect_right(list(accumulate(weights)), sum(weights) / 5))
    return weighted_median(times[:end], weights[:end])
