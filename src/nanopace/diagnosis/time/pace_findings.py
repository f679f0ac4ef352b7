"""Findings about the baseline: where it changed, what happened at the same time, and what it cost."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from nanopace.diagnosis.result import Finding, Level, Number, Step
from nanopace.diagnosis.time.baseline_rows import LEAST_MS
from nanopace.diagnosis.time.gpu_use import at_power_limit, samples_at_limit
from nanopace.diagnosis.time.levels import LEAST_SHIFT, MOST_BLOCKS, fifths
from nanopace.diagnosis.time.rows import CHANGED_SHARE, NORMAL, UNEVEN, Pace
from nanopace.medians import median, typical
from nanopace.run import Run

SPILL_RATIO = 1.8  # weights or activations in system memory make a step at least this much slower
WARMTH = 0.1  # of the speed: a warmer card at its power limit does not lose more
SAME_PLACE = 10  # iterations: how precisely the start of a level is known
SAME_ROWS = 6  # the same in rows, for events that only show in rows ...
PLACED = 10  # ... plus this many times the squared ratio of noise to shift: a small shift is hard to locate
MOST_ASTRAY = 12  # rows
BEGINNING_RATIO = 1.25  # a slow beginning is at least this much slower than the rest ...
BEGINNING = 0.2  # ... and at most this share of the run
EACH = 3  # list this many shifts one by one; if there are more, only the most expensive

SCHEDULED = frozenset(
    {"batch_scheduled", "attention_scheduled", "layers_repeated"}
)  # caveats of a run whose steps change on schedule

LEAST_WORK = 1.15  # a smaller change of the batch is lost in the noise ...
SAME_WORK = 0.1  # ... and the work must have changed by nearly the same factor as the time
LEAST_PRINTED = 0.01  # with two decimals, a smaller mfu is too imprecise for one row
ENOUGH_PRINTED, MOST_PRINTED = 5, 500  # rows of a level used to estimate its work


def step_findings(run: Run, pace: Pace) -> list[Finding]:
    """Findings about level shifts, drifts and uneven rows, or that no row is a plain step."""
    findings = _level_findings(run, pace) + _drift_findings(run, pace) + _uneven_findings(run, pace)
    if pace.basis != "rows" and len(run.rows):
        findings.append(Finding("no_plain_row", {"rows": run.rows.lines}))
    return findings


def lost_to_levels_s(step: Step) -> float:
    """How much shorter the run would have been at its fastest level throughout."""
    best = min(level.median_ms for level in step.levels)
    lengths = _iterations(step.levels)
    return sum(count * (level.median_ms - best) for count, level in zip(lengths, step.levels, strict=True)) / 1000


def _level_findings(run: Run, pace: Pace) -> list[Finding]:
    levels = pace.step.levels
    if len(levels) < 2:
        return []
    if run.on_cpu:
        times = [level.median_ms for level in levels]
        numbers = {"changes": len(levels) - 1, "fastest_ms": min(times), "slowest_ms": max(times)}
        return [Finding("cpu_pace", numbers)]
    nan_row = _first_nan_row(run)
    findings = [
        _shift(run, pace, number, nan_row)
        for number in range(1, len(levels))  # a smaller micro-batch takes a different time, which has its own finding
        if not any(abs(levels[number].first_iteration - each.iteration) <= SAME_PLACE for each in run.micro_batches)
    ]
    unexplained = [finding for finding in findings if finding.code == "level_shift"]
    if len(unexplained) <= EACH:
        return findings
    costliest = max(unexplained, key=lost_s)
    return [_changes(pace.step), *(each for each in findings if each.code != "level_shift" or each is costliest)]


def lost_s(finding: Finding) -> float:
    """The cost of a change of pace in seconds; 0 if it made the steps faster."""
    return finding.number("lost_s")


def _changes(step: Step) -> Finding:
    times = [level.median_ms for level in step.levels]
    changes = {"changes": len(times) - 1, "fastest_ms": min(times), "slowest_ms": max(times)}
    return Finding("pace_changes", {**changes, "lost_s": lost_to_levels_s(step)})


def _shift(run: Run, pace: Pace, number: int, nan_row: int | None) -> Finding:
    """The finding for the change to level `number`, depending on what happened at the same time."""
    levels = pace.step.levels
    before, after = levels[number - 1], levels[number]
    ratio = _ratio(before, after)
    numbers: dict[str, Number] = {
        "iteration": after.first_iteration,
        "before_ms": before.median_ms,
        "after_ms": after.median_ms,
        "change_share": ratio - 1,
        "lost_s": _cost_s(levels, number),
    }
    row = bisect_left(run.rows.last_iteration, after.first_iteration)
    astray = PLACED * (pace.spread / max(LEAST_SHIFT, abs(math.log(ratio)))) ** 2
    near = min(SAME_ROWS + round(astray), MOST_ASTRAY) + len(run.rows) // MOST_BLOCKS
    if nan_row is not None and abs(nan_row - row) <= near:
        return Finding("level_shift_at_nan", {**numbers, "nan_iteration": run.rows.iteration[nan_row]})
    work = _work_ratio(run, pace, number)
    if work is not None and abs(math.log(work / ratio)) <= SAME_WORK:
        return Finding("level_shift_at_batch", {**numbers, "work_ratio": work})
    restart = next((each for each in run.restarts if abs(each.row - row) <= near), None)
    if restart is not None:
        return Finding("level_shift_at_restart", {**numbers, "restart_iteration": restart.iteration})
    first, *_ = lengths = _iterations(levels)
    slow_first = all(_ratio(before, level) * BEGINNING_RATIO <= 1 for level in levels[1:])
    if number == 1 and slow_first and first <= BEGINNING * sum(lengths):
        lost = first * (before.median_ms - after.median_ms) / 1000
        times = {"before_ms": before.median_ms, "after_ms": after.median_ms}
        return Finding("slow_beginning", {"iterations": first, **times, "ratio": 1 / ratio, "lost_s": lost})
    if _is_scheduled(run):
        return Finding("level_shift_scheduled", numbers)
    if _stays_slow_for_the_first_time(levels, number):  # else it was another program
        return Finding("memory_spill", {**numbers, "ratio": ratio})
    if at_power_limit(run) and abs(ratio - 1) <= WARMTH:
        return Finding("level_shift_at_power_limit", {**numbers, **samples_at_limit(run)})
    return Finding("level_shift", numbers)


def _stays_slow_for_the_first_time(levels: Sequence[Level], number: int) -> bool:
    """Memory that has spilled does not come back: whatever was that slow before and recovered is something else."""
    ratios = [_ratio(levels[number - 1], level) for level in levels]
    return max(ratios[:number]) < SPILL_RATIO <= min(ratios[number:])


def _is_scheduled(run: Run) -> bool:
    """Whether the trainer's steps grow or shrink on schedule."""
    return any(each.code in SCHEDULED for each in run.caveats)


def _ratio(before: Level, after: Level) -> float:
    return max(after.median_ms, LEAST_MS) / max(before.median_ms, LEAST_MS)


def _cost_s(levels: Sequence[Level], number: int) -> float:
    """The cost of a shift until the steps are as fast as before."""
    before_ms, after_ms = levels[number - 1].median_ms, levels[number].median_ms
    lost_ms = 0.0
    for count, level in list(zip(_iterations(levels), levels, strict=True))[number:]:
        if level.median_ms < before_ms * math.exp(LEAST_SHIFT):
            break
        lost_ms += count * (min(level.median_ms, after_ms) - before_ms)
    return lost_ms / 1000


def _iterations(levels: Sequence[Level]) -> list[int]:
    """The number of iterations in each level, including those between its last row and the next level."""
    ends = [*(level.first_iteration for level in levels[1:]), levels[-1].last_iteration + 1]
    return [end - level.first_iteration for end, level in zip(ends, levels, strict=True)]


def _first_nan_row(run: Run) -> int | None:
    """The first row with a nan or infinite loss: readers store both as infinity."""
    return next((index for index, loss in enumerate(run.rows.loss) if math.isinf(loss)), None)


def _work_ratio(run: Run, pace: Pace, number: int) -> float | None:
    """The work per iteration of this level over that of the level before; None if unknown or equal."""
    before, after = (_work(run, pace, level) for level in pace.step.levels[number - 1 : number + 1])
    if not before or not after:
        return None
    ratio = after / before
    return ratio if max(ratio, 1 / ratio) >= LEAST_WORK else None


def _work(run: Run, pace: Pace, level: Level) -> float | None:
    """mfu x time of a level's plain rows, with the trainer's smoothing of the mfu undone: proportional to the tokens
    per iteration."""
    rows, smoothing = run.rows, run.mfu_smoothing or 0.0
    begin = bisect_left(rows.last_iteration, level.first_iteration)
    end = bisect_left(rows.last_iteration, level.last_iteration + 1)
    found = []
    for index in range(begin + 1, min(end, begin + MOST_PRINTED)):
        mfu, last = rows.mfu[index], rows.mfu[index - 1]
        plain = pace.kind[index] in (NORMAL, UNEVEN) and rows.count[index] == rows.count[index - 1] == 1
        if plain and min(mfu, last) >= LEAST_PRINTED:  # false if one is unknown
            found.append((mfu - smoothing * last) / (1 - smoothing) * rows.ms[index])
    return median(found) if len(found) >= ENOUGH_PRINTED else None


def _drift_findings(run: Run, pace: Pace) -> list[Finding]:
    """A drift, or a change from the first to the last fifth that no level shift explains."""
    step, levels = pace.step, pace.step.levels
    if step.first_fifth_ms is None or step.last_fifth_ms is None:
        return []
    share = step.last_fifth_ms / step.first_fifth_ms - 1 if step.first_fifth_ms else 0.0
    if step.drift_share is None and (
        step.change_share is None or abs((1 + share) / _change_of_levels(run, levels) - 1) < CHANGED_SHARE
    ):
        return []
    lost = _drift_cost_s(run, pace, step.first_fifth_ms)
    ends = {"first_ms": step.first_fifth_ms, "last_ms": step.last_fifth_ms, "change_share": share, "lost_s": lost}
    if step.drift_share is not None:
        return [Finding("drift", {**ends, "drift_share": step.drift_share})]
    if share <= 0:
        return [Finding("faster_at_the_end", ends)]
    return [Finding("slower_as_scheduled" if _is_scheduled(run) else "slower_at_the_end", ends)]


def _change_of_levels(run: Run, levels: Sequence[Level]) -> float:
    """The ratio of the last fifth to the first one, if each row took the time of its level."""
    starts = [level.first_iteration for level in levels]
    of_rows = [levels[bisect_right(starts, last) - 1].median_ms for last in run.rows.last_iteration]
    first_ms, last_ms = fifths(of_rows, run.rows.count)
    return max(last_ms, LEAST_MS) / max(first_ms, LEAST_MS)


def _drift_cost_s(run: Run, pace: Pace, first_ms: float) -> float:
    """How much shorter the run would have been if its steps had stayed as fast as in the first fifth."""
    lost_ms, last = 0.0, run.rows.iteration[0] - 1
    for end, step_ms in zip(run.rows.last_iteration, pace.baseline_ms, strict=True):
        lost_ms += max(0, end - last) * (step_ms - first_ms)
        last = max(last, end)
    return max(0.0, lost_ms / 1000)


def _uneven_findings(run: Run, pace: Pace) -> list[Finding]:
    """Many rows that took a little longer than similar ones."""
    step = pace.step
    uneven = [index for index, kind in enumerate(pace.kind) if kind == UNEVEN]
    total_ms = sum(pace.excess_ms(run.rows, index) for index in uneven)
    many = step.uneven_rows >= 0.02 * step.normal_rows or total_ms >= 0.001 * sum(run.rows.sum_ms)
    if step.uneven_rows < 3 or not many:
        return []
    excess = typical((run.rows.ms[index] / pace.baseline_ms[index] - 1, run.rows.count[index]) for index in uneven)
    numbers = {
        "rows": step.uneven_rows,
        "normal_rows": step.normal_rows,
        "excess_share": excess,
        "total_s": total_ms / 1000,
    }
    return [Finding("uneven_rows", numbers)]
