"""Converts the time of each row to that of one iteration, as the format declares (`row_time`).

nanoGPT prints the time of a single iteration, however far apart its rows are. Some forks print that of all iterations
since the previous row. A log counts as the second kind only if it proves it:

tokens      its tokens per second, times its time, are the tokens of all those iterations
stamps      the difference between time stamps is what the row says, not that many times as long
first_row   the first row, which has one iteration and an evaluation, takes less than half as long as every other row
            without a save; if the first row saves, too, as every other row

The last is no proof for nanoGPT's own rows: their clock does not wait for the GPU, so a first row may be short.

Others print the time since the start of training: from row to row, it always rises, and by about as much.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import TypeVar

from nanopace.medians import upper_median
from nanopace.record import replace
from nanopace.run import Checkpoint, CoverEvidence, Evaluation, Row, Rows, Run
from nanopace.sources.infer.spacing import longest_spacing
from nanopace.sources.log_format import RowTime

_NEAR = 0.1  # of the expected value
_SCATTER = 1.25  # times: the first step may have been a fast one
_SHORTEST_S = 20.0  # that time stamps must span: they may be whole seconds
_FEWEST = 3  # rows, or pairs of rows, that must agree
_SOON = 5  # rows after the first
_MOST_ROWS = 2000  # to examine

_ENOUGH_TO_RISE = 20  # rows: no step time rises in each of so many
_FROM_START = 0.1  # of the last time: more in the first row, and it may be a step that becomes slower
_AS_MUCH = 0.5  # of the mean rise: what a typical row adds at least

Number = Callable[[str], float | None]
Event = TypeVar("Event", Evaluation, Checkpoint)


def per_iteration(
    run: Run, row_time: RowTime, number: Number, *, row_tokens: object = None, a_fork: bool = False
) -> Run:
    """The run with the time of one iteration in each row, whatever its trainer prints."""
    if not len(run.rows):
        return run
    match row_time:
        case "iteration_or_all" if _is_since_start(run):
            return _differences(run)
        case "iteration_or_all":
            return divide_covering_rows(run, number, row_tokens=row_tokens, a_fork=a_fork)
        case "all":
            return divide_rows(run, int(number("log_interval") or 1), "trainer")
        case "mean":
            return _mark_mean_rows(run, int(number("log_interval") or 1))
        case "clock":
            cover = _longest_cover(run.rows)
            return replace(run, rows_cover=cover, rows_cover_shown_by="clock") if cover > 1 else run
    return run


def _is_since_start(run: Run) -> bool:
    rows = run.rows
    if len(rows) < _ENOUGH_TO_RISE or max(rows.count) > 1 or run.restarts or run.rollbacks:
        return False
    rises = [after - before for before, after in pairwise(rows.ms)]
    mean = (rows.ms[-1] - rows.ms[0]) / len(rises)
    return min(rises) > 0 and rows.ms[0] < _FROM_START * rows.ms[-1] and upper_median(rises) > _AS_MUCH * mean


def _differences(run: Run) -> Run:
    """The run with the time of one iteration in each row, from a clock that shows the time since the start."""
    rows, divided, clock_ms, last = run.rows, [], 0.0, -1
    for row in rows:
        iterations = row.iteration - last if last >= 0 else max(1, row.iteration)
        ms = (row.ms - clock_ms) / iterations
        divided.append(replace(row, ms=ms, sum_ms=ms))
        clock_ms, last = row.ms, row.iteration
    cover = _longest_cover(rows)
    counted = replace(run, rows=Rows(divided))
    return replace(counted, rows_cover=cover, rows_cover_shown_by="clock") if cover > 1 else counted


def divide_covering_rows(run: Run, number: Number, *, row_tokens: object = None, a_fork: bool = False) -> Run:
    """The run with the time of one iteration in each row.

    `number` returns facts, `row_tokens` is the tokens per second of a row times its time, and `a_fork` says that the
    rows are not exactly nanoGPT's.
    """
    interval = int(number("log_interval") or 1) if len(run.rows) else 1
    evidence = _evidence(run, interval, number, row_tokens, a_fork) if interval > 1 else None
    return run if evidence is None else divide_rows(run, interval, evidence)


def divide_rows(run: Run, interval: int, evidence: CoverEvidence) -> Run:
    """The same, for rows that cover the iterations since the previous one: at most `interval`, unless the trainer
    always prints such rows, however far apart."""
    if evidence == "trainer":
        covered = since_row_before(run)
        interval = interval if interval > 1 else _most_frequent(covered)
    else:
        firsts = {each.row for each in run.restarts} | {each.row for each in run.rollbacks}
        firsts |= {0} if run.rows.iteration[0] == 0 else set()
        covered = [1 if each in firsts else _covered(run.rows, each, interval) for each in range(len(run.rows))]
    rows = Rows([_divided(row, by) for row, by in zip(run.rows, covered, strict=True)])
    return replace(
        run,
        rows=rows,
        evaluations=_in_rows(run.evaluations, run, bisect_left),
        checkpoints=_in_rows(run.checkpoints, run, bisect_left),
        restarts=tuple(replace(each, lost=_all_divided(each.lost, interval)) for each in run.restarts),
        rollbacks=tuple(replace(each, lost=_all_divided(each.lost, interval)) for each in run.rollbacks),
        rows_cover=interval,
        rows_cover_shown_by=evidence,
    )


def _mark_mean_rows(run: Run, interval: int) -> Run:
    """The same, for rows that already have the mean.

    These trainers count from 1: an evaluation with the same number as a row follows it, so the next row includes it.
    """
    return replace(
        run,
        evaluations=_in_rows(run.evaluations, run, bisect_right),
        checkpoints=_in_rows(run.checkpoints, run, bisect_right),
        rows_cover=interval,
        rows_cover_shown_by="trainer" if interval > 1 else None,
    )


def _longest_cover(rows: Rows) -> int:
    """The iterations between those rows that cover most of the run; for a single row, all since the start."""
    return longest_spacing(zip(rows.iteration, rows.last_iteration, rows.count, strict=True)) or rows.iteration[0]


def _evidence(run: Run, interval: int, number: Number, row_tokens: object, a_fork: bool) -> CoverEvidence | None:
    stamps = _by_stamps(run)
    if stamps is not None:
        return "stamps" if abs(stamps - 1) < _NEAR else None
    if isinstance(row_tokens, float) and _by_tokens(row_tokens, interval, number):
        return "tokens"
    return "first_row" if a_fork and _by_first_row(run, interval) else None


def _by_stamps(run: Run) -> float | None:
    """The time from row to row by the stamps, divided by the printed one; None if there are too few stamps.

    Pairs of rows that may have an evaluation or a save between them are left out.
    """
    rows = run.rows[:_MOST_ROWS]
    busy = sorted([*(each.iteration for each in run.evaluations), *(each.iteration for each in run.checkpoints)])
    printed_s = passed_s = 0.0
    pairs = 0
    for before, row in pairwise(rows):
        quiet = bisect_right(busy, before.iteration) == bisect_right(busy, row.iteration)
        if before.at_s is None or row.at_s is None or not quiet:
            continue
        printed_s, passed_s, pairs = printed_s + row.ms / 1000, passed_s + row.at_s - before.at_s, pairs + 1
    return passed_s / printed_s if pairs >= _FEWEST and passed_s >= _SHORTEST_S else None


def _by_tokens(row_tokens: float, interval: int, number: Number) -> bool:
    """False if the same factor may come from GPUs or micro-batches that one of the figures leaves out."""
    batch, steps, block = (number(name) for name in ("batch_size", "gradient_accumulation_steps", "block_size"))
    tokens = number("tokens_per_iteration") or (batch or 0) * (steps or 0) * (block or 0)
    if not tokens or interval in (number("gpu_count"), steps):
        return False
    return abs(row_tokens / tokens / interval - 1) < _NEAR


def _by_first_row(run: Run, interval: int) -> bool:
    """The other rows must not be longer than that many first rows either; otherwise, something else is odd."""
    first = run.rows[0]
    saves = sorted(each.iteration for each in run.checkpoints)
    if saves[:1] == [0]:
        saves = []  # the first row includes everything that the others do
    others = [
        row.ms
        for before, row in pairwise(run.rows[:_MOST_ROWS])
        if bisect_right(saves, before.iteration) == bisect_right(saves, row.iteration)
    ]
    evaluated = any(each.iteration == 0 and each.row == 0 for each in run.evaluations)
    nanogpts_clock = not all(map(math.isnan, run.rows.mfu))  # a fork that prints nanoGPT's mfu has its clock, too
    if first.iteration or first.count > 1 or not evaluated or len(others) < _FEWEST or nanogpts_clock:
        return False
    typical = upper_median(others[:_SOON])  # later ones may have another speed
    return 2 * first.ms < min(others) and typical <= _SCATTER * interval * first.ms


def since_row_before(run: Run) -> list[int]:
    """For each row, the iterations since the previous one, or since its process resumed. A log may be an excerpt, so
    its first row covers no more than the second."""
    rows = run.rows
    resumed = {each.row: each.iteration for each in run.restarts}
    resumed |= {each.row: each.iteration for each in run.rollbacks}
    usual = rows.iteration[1] - rows.last_iteration[0] if len(rows) > 1 else rows.iteration[0]
    covered = [max(1, min(rows.iteration[0], usual))]
    for index in range(1, len(rows)):
        at, before = rows.iteration[index], rows.last_iteration[index - 1]
        if (went_on := resumed.get(index, before)) < at:
            before = max(before, went_on)
        each = (rows.last_iteration[index] - at) // (rows.count[index] - 1) if rows.count[index] > 1 else at - before
        covered.append(max(1, each))
    return covered


def _most_frequent(covered: list[int]) -> int:
    """Of several, the largest: the first row may cover fewer iterations than the others."""
    counts = Counter(covered)
    return max(counts, key=lambda each: (counts[each], each))


def _covered(rows: Rows, index: int, interval: int) -> int:
    """Iterations since the previous row, or since the start: some rows may be closer together than most."""
    since = rows.iteration[index] - (rows.last_iteration[index - 1] if index else 0)
    return min(interval, max(1, since)) if rows.count[index] == 1 else interval


def _in_rows(events: Iterable[Event], run: Run, find: Callable[[Sequence[int], int], int]) -> tuple[Event, ...]:
    """An event between two rows is in the time of the later one, unless the clock stops for it. What has a row's number
    is in that row, or in the next one, as `find` says."""
    placed = []
    for event in events:
        row = find(run.rows.last_iteration, event.iteration)
        inside = run.row_contains_evaluation and event.row is None and 0 < row < len(run.rows)
        placed.append(replace(event, row=row) if inside else event)
    return tuple(placed)


def _divided(row: Row, by: int) -> Row:
    return replace(row, ms=row.ms / by, sum_ms=row.sum_ms / by)


def _all_divided(rows: Rows, by: int) -> Rows:
    return Rows([_divided(row, by) for row in rows])
