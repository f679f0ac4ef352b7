"""What would make statements about slow rows false: evaluations, checkpoints, start-up, stalls, restarts."""

# ruff: noqa: ARG001 (all checkers are called alike)
from __future__ import annotations

import math
from typing import Any

from nanopace.diagnosis.result import Diagnosis

from .check import (
    EXACT,
    Numbers,
    check,
    costs_ms,
    exactly,
    first_of,
    jumped_ms,
    off,
    open_row_ms,
    open_step,
    save_ms,
    spikes_ms,
    stalled_ms,
)
from .truth import Truth


@check("evaluation_rows")
def _(truth: Truth, said: Numbers, d: Diagnosis) -> str | None:
    rows = len(truth.visible)
    if not rows:
        return "no row contains an evaluation"
    overhead = truth.seconds["evaluation"] + truth.seconds["checkpoint"]
    stalled = sum(row.stall_ms for row in truth.visible) / 1000
    unpriced = sum(each.all_ms for each in truth.hidden) / 1000 * (0.05 + truth.unsteady)
    at_jumps = sum(abs(factor - 1) for _, factor in truth.jumps) * max(truth.levels) / 1000
    unpriced += stalled_ms(truth) * len(truth.hidden) / 1000
    each_by = (open_row_ms(truth, rows) + stalled_ms(truth)) / 1000
    by = open_row_ms(truth, rows) * rows / 1000 + stalled + unpriced + at_jumps
    if not truth.plain:
        by += 0.15 * overhead  # without a plain row, the step is an estimate, and reported as one
    if any(finding.code == "save_in_doubt" for finding in d.findings):
        by += truth.seconds["checkpoint"]  # they may be stalls, and that is said
    share = overhead / truth.total_s  # of a total that is as open as the steps are
    return first_of(
        None if said["slow"] <= rows else f"{said['slow']} slow rows, but only {rows} evaluate",
        exactly("rows", said["rows"], len(truth.rows)),
        None if said["interval"] is None else exactly("interval", said["interval"], truth.plan.eval_interval),
        off("each_s", said["each_s"], *(ms / 1000 for ms in spikes_ms(truth)), by=each_by),
        off("overhead_s", said["overhead_s"], overhead, by=by),
        off("overhead_share", said["overhead_share"], share, by=by / truth.total_s + 0.001 + share * open_step(truth)),
    )


@check("checkpoint_measured")
def _(truth: Truth, said: Numbers, d: Diagnosis) -> str | None:
    saved = [row for row in truth.visible if row.evaluated and row.evaluated.save_ms is not None]
    unsaved = [row for row in truth.visible if row.evaluated and row.evaluated.save_ms is None]
    if not saved or not unsaved:
        return "there are no rows of both kinds"
    spread = 3 * truth.plan.evaluation_noise * costs_ms(truth)[1] / math.sqrt(min(len(saved), len(unsaved)))
    by = (open_row_ms(truth, min(len(saved), len(unsaved))) + spread + stalled_ms(truth)) / 1000
    evaluation = [ms / 1000 for ms in costs_ms(truth)]
    save = [ms / 1000 for ms in save_ms(truth)]
    inside = in_interval(said, save)
    return first_of(
        off("saved_rows", said["saved_rows"], len(saved), by=len(truth.resumed)),
        off("unsaved_rows", said["unsaved_rows"], len(unsaved), by=len(truth.resumed)),
        off("evaluation_s", said["evaluation_s"], *evaluation, by=by),
        None if inside else off("checkpoint_s", said["checkpoint_s"], *save, by=by + 0.02 * evaluation[0]),
    )


def in_interval(said: Numbers, save: list[float]) -> bool:
    """Whether a checkpoint is in the reported 80% interval, if there is one, widened to twice its size."""
    low, high = said.get("checkpoint_low_s"), said.get("checkpoint_high_s")
    if low is None or high is None:
        return False
    return bool(1.5 * low - 0.5 * high <= save[1] and save[0] <= 1.5 * high - 0.5 * low)


@check("checkpoint_bounded")
def _(truth: Truth, said: Numbers, d: Diagnosis) -> str | None:
    rows = len(truth.visible)
    by = (open_row_ms(truth, rows) + stalled_ms(truth)) / 1000
    least = min(save_ms(truth)) / 1000
    return first_of(
        off("spike_s", said["spike_s"], *(ms / 1000 for ms in spikes_ms(truth)), by=by),
        off("predicted_s", said["predicted_s"], *(ms / 1000 for ms in costs_ms(truth)), by=0.25 * said["predicted_s"]),
        None if least <= said["checkpoint_s"] * 1.02 + by else f"at most {said['checkpoint_s']}, but it is {least:.4g}",
    )


@check("checkpoint_at_least")
def _(truth: Truth, said: Numbers, d: Diagnosis) -> str | None:
    by = (open_row_ms(truth, len(truth.visible)) + 3 * truth.plan.evaluation_noise * costs_ms(truth)[1]) / 1000
    by += (stalled_ms(truth) + costs_ms(truth)[1] - costs_ms(truth)[0]) / 1000
    most = max(save_ms(truth)) / 1000
    return first_of(
        off("spike_s", said["spike_s"], *(ms / 1000 for ms in spikes_ms(truth)), by=by),
        f"at least {said['checkpoint_s']}, but it is {most}" if said["checkpoint_s"] > most * 1.02 + by else None,
    )


@check("checkpoint_within_scatter")
def _(truth: Truth, said: Numbers, d: Diagnosis) -> str | None:
    by = (open_row_ms(truth, min(said["saved_rows"], said["unsaved_rows"])) + stalled_ms(truth)) / 1000
    least = min(save_ms(truth)) / 1000
    return first_of(
        off("evaluation_s", said["evaluation_s"], *(ms / 1000 for ms in costs_ms(truth)), by=by),
        f"at most {said['checkpoint_s']}, but it is {least}" if least > said["checkpoint_s"] * 1.05 + by else None,
    )


@check("checkpoint_few_saves")
def _(truth: Truth, said: Numbers, d: Diagnosis) -> str | None:
    by = (open_row_ms(truth, said["saved_rows"]) + stalled_ms(truth)) / 1000
    least = min(save_ms(truth)) / 1000
    return first_of(
        None if said["saved_rows"] < 3 else f"{said['saved_rows']} rows are not few",
        off("evaluation_s", said["evaluation_s"], *(ms / 1000 for ms in costs_ms(truth)), by=by),
        f"at most {said['checkpoint_s']}, but it is {least}" if least > said["checkpoint_s"] * 1.05 + by else None,
    )


@check("checkpoint_few_without")
def _(truth: Truth, said: Numbers, d: Diagnosis) -> str | None:
    unsaved = [row for row in truth.visible if row.evaluated and row.evaluated.save_ms is None]
    return first_of(
        None if 0 < said["unsaved_rows"] < 3 else f"{said['unsaved_rows']} rows are not few",
        off("unsaved_rows", said["unsaved_rows"], len(unsaved), by=len(truth.resumed)),
        off("saved_rows", said["saved_rows"], len(truth.visible) - len(unsaved), by=len(truth.resumed)),
    )


@check("save_in_doubt")
def _(truth: Truth, said: Numbers, d: Diagnosis) -> str | None:
    saved = [row for row in truth.visible if row.evaluated and row.evaluated.save_ms is not None]
    # Longer than the evaluations that it names, whose figure is checked by itself: they may contain a stall as well.
    rows_s = sum(row.evaluated.all_ms + row.stall_ms for row in saved if row.evaluated) / 1000
    longer = rows_s - len(saved) * said["evaluation_s"]
    by = (open_row_ms(truth, 1) + 3 * truth.plan.evaluation_noise * costs_ms(truth)[1]) / 1000
    by += (jumped_ms(truth) + costs_ms(truth)[1] - costs_ms(truth)[0]) / 1000
    return first_of(
        None if said["saved_rows"] < 3 else f"{said['saved_rows']} rows are not few",
        off(
            "evaluation_s",
            said["evaluation_s"],
            *(ms / 1000 for ms in costs_ms(truth)),
            by=by + stalled_ms(truth) / 1000,
        ),
        off("longer_s", said["longer_s"], longer, by=by * said["saved_rows"]),
    )


@check("checkpoint_other_speed")
def _(truth: Truth, said: Numbers, d: Diagnosis) -> str | None:
    """In speed, in what delays them, or in that the loss is gone."""
    differ = (
        truth.jumps or truth.unsteady > 0.02 or truth.plan.noise >= 0.03 or any(row.stall_ms for row in truth.visible)
    )
    return None if differ or truth.nan_from is not None else "the speed is the same throughout"


@check("checkpoint_stamped")
def _(truth: Truth, said: Numbers, d: Diagnosis) -> str | None:
    """Timestamps in whole seconds: the mean of n differences is uncertain by 1 s over the root of n."""
    if not truth.plan.stamped:
        return "the lines have no time stamps"
    saves = sum(each.save_ms is not None for each in truth.evaluations)
    by = 1.5 / math.sqrt(max(1, saves)) + (open_row_ms(truth, saves) + stalled_ms(truth)) / 1000
    save = [ms / 1000 for ms in save_ms(truth)]
    return first_of(
        off("evaluation_s", said["evaluation_s"], *(ms / 1000 for ms in costs_ms(truth)), by=by),
        None if in_interval(said, save) else off("checkpoint_s", said["checkpoint_s"], *save, by=by),
    )


@check("checkpoint_unknown")
def _(truth: Truth, said: Numbers, d: Diagnosis) -> str | None:
    by = (open_row_ms(truth, len(truth.visible)) + stalled_ms(truth)) / 1000
    small = min(save_ms(truth)) / 1000 <= 0.35 * said["spike_s"] + by
    return first_of(
        off("spike_s", said["spike_s"], *(ms / 1000 for ms in spikes_ms(truth)), by=by),
        None if said["predicted_s"] is None or small else "the checkpoint is said to be small, and is not",
    )


@check("checkpoint_not_first")
def _(truth: Truth, said: Numbers, d: Diagnosis) -> str | None:
    first = truth.rows[0]
    if not truth.begins or first.evaluated is None or first.evaluated.save_ms is not None:
        return "the first row is none of the run's start"
    return off("total_s", said["total_s"], first.ms / 1000)


def open_start_s(truth: Truth) -> float:
    """The tolerance of the first row's step, taken from the rows after it; only a few if the speed soon changes."""
    near = 11 if truth.jumps else 25
    noise = open_step(truth, min(near, len(truth.plain))) if truth.plain else open_step(truth)
    return max(truth.levels) * noise / 1000


@check("startup")
def _(truth: Truth, said: Numbers, d: Diagnosis) -> str | None:
    first = truth.rows[0]
    if not truth.begins:
        return "the log does not begin with the start"
    by = (open_row_ms(truth, 1) + 3 * truth.plan.evaluation_noise * costs_ms(truth)[1]) / 1000
    levels = [ms / 1000 for ms in (min(truth.levels), max(truth.levels))]
    evaluation = first.evaluated.ms / 1000 if first.evaluated else 0.0
    range_s = [ms / 1000 for ms in costs_ms(truth)]  # priced by the later ones
    slack = by + (first.stall_ms + (1 + truth.unsteady) * stalled_ms(truth)) / 1000 + (range_s[1] - range_s[0])
    nothing = said["compile_s"] == 0 and truth.plan.compiles
    return first_of(
        exactly("iteration", said["iteration"], 0),
        off("total_s", said["total_s"], first.ms / 1000),
        off("step_s", said["step_s"], *levels, by=open_start_s(truth)),
        off("evaluation_s", said["evaluation_s"], evaluation, by=slack),
        off("compile_s", said["compile_s"], first.compile_ms / 1000, by=slack + EXACT * said["total_s"]),
        "compile is on, and is said to take nothing" if nothing else None,
    )


@check("startup_bounded")
def _(truth: Truth, said: Numbers, d: Diagnosis) -> str | None:
    """The evaluation at most, so compile at least."""
    if not truth.begins:
        return "the log does not begin with the start"
    first = truth.rows[0]
    by = (open_row_ms(truth, len(truth.visible)) + stalled_ms(truth) + first.stall_ms) / 1000
    by += (costs_ms(truth)[1] - costs_ms(truth)[0] + 3 * truth.plan.evaluation_noise * costs_ms(truth)[1]) / 1000
    least, most = first.compile_ms / 1000, (first.evaluated.ms if first.evaluated else 0.0) / 1000
    return first_of(
        off("total_s", said["total_s"], first.ms / 1000),
        f"evaluation at most {said['evaluation_s']}, but it is {most}" if most > said["evaluation_s"] + by else None,
        f"compile at least {said['compile_s']}, but it is {least}" if said["compile_s"] > least + by else None,
    )


@check("startup_unsplit", "startup_together", "startup_compile")
def _(truth: Truth, said: Numbers, d: Diagnosis) -> str | None:
    if not truth.begins:
        return "the log does not begin with the start"
    levels = [ms / 1000 for ms in (min(truth.levels), max(truth.levels))]
    return first_of(
        exactly("iteration", said["iteration"], 0),
        off("total_s", said["total_s"], truth.rows[0].ms / 1000),
        off("step_s", said.get("step_s"), *levels, by=open_start_s(truth)),
    )


@check("gap_between_rows")
def _(truth: Truth, said: Numbers, d: Diagnosis) -> str | None:
    """Rows and evaluations explain everything in these runs, except a new process and its start."""
    known = truth.plan.stamped and (truth.resumed or truth.hidden)
    return None if known else "there is no such gap"


@check("periodic_stalls")
def _(truth: Truth, said: Numbers, d: Diagnosis) -> str | None:
    interval = said["interval"]
    held = [row for row in truth.plain if row.stall_ms > 0.15 * row.level_ms]
    phases = [row.iteration % interval for row in held]
    phase = max(phases, key=phases.count, default=None)
    due = [row for row in truth.plain if row.iteration % interval == phase]
    slow = [row for row in held if row in due]
    if not slow or len(slow) < 0.6 * len(due):
        return f"every {interval}: {len(slow)} of {len(due)} such rows were held up"
    stalls = [row.stall_ms / 1000 for row in slow]
    by = 0.05 * said["each_s"] + open_row_ms(truth, 5) / 1000
    return off("each_s", said["each_s"], min(stalls), max(stalls), by=by)


@check("stalls")
def _(truth: Truth, said: Numbers, d: Diagnosis) -> str | None:
    """A row that took longer than its step was delayed, if only by chance; one that evaluates, by more than that."""
    levels = usual_levels(truth)
    held = [row for row in truth.rows if excess_ms(row, levels) > 0.15 * levels[row.iteration]]
    worst = next((row for row in truth.rows if row.iteration == said["iteration"]), None)
    if worst is None or worst not in held:
        return f"iteration {said['iteration']} was not held up"
    beside = worst.evaluated.all_ms if worst.evaluated else 0.0
    by = open_row_ms(truth, 5) + 0.05 * worst.level_ms + 0.07 * beside
    by += truth.unsteady * worst.level_ms if len(truth.plain) < 40 else 0.0  # which level it is on
    if worst.evaluated:  # what such a row takes at another level is not known
        by += stalled_ms(truth) + truth.unsteady * beside
    total = sum(excess_ms(row, levels) for row in held) / 1000
    return first_of(
        None if said["rows"] <= len(held) else f"{said['rows']} rows held up, but it is {len(held)}",
        off("largest_s", said["largest_s"], excess_ms(worst, levels) / 1000, by=by / 1000),
        None if said["total_s"] <= total * 1.05 + by * said["rows"] / 1000 else f"total_s {said['total_s']} > {total}",
    )


def usual_levels(truth: Truth) -> dict[int, float]:
    """The level at each row. Up to five plain rows at an end of the log are delayed, not a level."""
    levels = {row.iteration: row.level_ms for row in truth.rows}
    for rows in (truth.plain, truth.plain[::-1]):
        if len(rows) > 5:
            levels |= {row.iteration: min(row.level_ms, rows[5].level_ms) for row in rows[:5]}
    return levels


def excess_ms(row: Any, levels: dict[int, float]) -> float:
    """What nothing in the log explains: the stall, and the noise of the step."""
    return float(row.stall_ms + row.step_ms - levels[row.iteration])


@check("uneven_rows")
def _(truth: Truth, said: Numbers, d: Diagnosis) -> str | None:
    rows = truth.plain
    near = [
        min(row.level_ms for row in rows[max(0, k - 12) : k + 13]) for k in range(len(rows))
    ]  # a few rows are not a level
    longer = sum(row.step_ms + row.stall_ms > 1.005 * least for row, least in zip(rows, near, strict=True))
    return first_of(
        None if said["rows"] <= longer else f"{said['rows']} rows took longer, but it is {longer}",
        None if said["normal_rows"] <= len(truth.plain) else f"{said['normal_rows']} normal rows",
    )


@check("no_plain_row")
def _(truth: Truth, said: Numbers, d: Diagnosis) -> str | None:
    if truth.plain:
        return f"{len(truth.plain)} rows are plain steps"
    return exactly("rows", said["rows"], len(truth.rows))


@check("restarts")
def _(truth: Truth, said: Numbers, d: Diagnosis) -> str | None:
    true_s = truth.seconds["restart"]
    ends = {process: max(row.iteration for row in truth.told if row.process < process) for process in truth.resumed}
    lost = sum(max(0, ends[process] - at + 1) for process, at in truth.resumed.items())
    by = (0.05 + open_step(truth, 10) + truth.unsteady) * true_s + len(truth.resumed) * open_row_ms(truth, 1) / 1000
    by += max((row.stall_ms for row in truth.told), default=0.0) / 1000  # right after a start it is taken for warm-up
    if not truth.plain:
        by = true_s  # what a step takes is an estimate then
    return first_of(
        exactly("count", said["count"], len(truth.resumed)),
        exactly("lost_iterations", said["lost_iterations"], lost),
        off("lost_s", said["lost_s"], true_s, by=by),
    )


@check("ended_error")
def _(truth: Truth, said: Numbers, d: Diagnosis) -> str | None:
    return None if truth.plan.ending else "the log just ends"


@check("ended_interrupted", "ended_out_of_memory")
def _(truth: Truth, said: Numbers, d: Diagnosis) -> str | None:
    true = {"interrupt": "interrupted", "memory": "out_of_memory"}.get(truth.plan.ending)
    return first_of(
        exactly("ending", d.source.ending, true),
        exactly("last_iteration", said["last_iteration"], truth.rows[-1].iteration),
    )
