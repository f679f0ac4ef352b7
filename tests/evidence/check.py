"""What would make each finding of one run false, given the truth that its log was built from.

A checker returns a complaint, or None where the sentence is true. Figures are held to 2% and to what the noise of the
run leaves open (three standard errors), claims hold exactly. A finding without a checker fails a test: whoever adds one
says here what would make it false.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from nanopace.diagnosis.result import Diagnosis

from .truth import Truth, val_of

Numbers = Mapping[str, Any]
Checker = Callable[[Truth, Numbers, Diagnosis], "str | None"]

EXACT = 0.02  # of a figure
STEADY = 0.05  # a step that changed by less "did not change"
CHECKS: dict[str, Checker] = {}

# Findings that no text log of nanoGPT leads to, each with what it takes. One that appears all the same is false.
NOT_IN_TEXT_LOGS: Mapping[str, str] = {
    "evaluations_outside_clock": "nanochat's clock, which stops for evaluations; nanoGPT's runs on",
    "level_shift_at_power_limit": "the card's sensors",
    "cpu_pace": "a run on a CPU; none is built here",
    "ran_on_cpu": "a run on a CPU; none is built here",
    "suspended": "a trainer that notices",
    "data_stalls": "a trainer that times its data",
    "rollbacks": "a trainer that goes back",
    "micro_batch_reduced": "a trainer that survives a full memory",
    "micro_batch_reduced_at_start": "the same",
    "micro_batch_reduced_in_evaluation": "the same",
    "straggler": "times of several ranks",
    "ended_diverged": "a trainer that stops by itself",
    "conflict": "two sources of one setting; none is built here",
    "card_without_peak": "a card that is not in the table; none is built here",
    "utilisation_measured": "a card that was measured",
    "utilisation_power_limited": "the card's sensors",
    "throttled_heat": "the card's sensors",
    "throttled_hardware": "the card's sensors",
    "throttled_power": "the card's sensors",
    "energy": "the card's sensors",
    "skipped_steps": "a trainer that skips",
    "find_the_straggler": "times of several ranks",
    "smaller_micro_batch": "a trainer that survives a full memory",
}


def check(*codes: str) -> Callable[[Checker], Checker]:
    def note(checker: Checker) -> Checker:
        CHECKS.update(dict.fromkeys(codes, checker))
        return checker

    return note


def off(name: str, said: float | None, low: float, high: float | None = None, *, by: float = 0.0) -> str | None:
    """A complaint unless the figure lies in [low, high], widened by 2% and by what is absolutely open."""
    high = low if high is None else high
    if said is None:
        return None
    if low - EXACT * abs(low) - by <= said <= high + EXACT * abs(high) + by:
        return None
    return f"{name} {said:.6g}, but it is {low:.6g}" + (f" to {high:.6g}" if high != low else "")


def first_of(*complaints: str | None) -> str | None:
    return next((each for each in complaints if each), None)


def exactly(name: str, said: object, true: object) -> str | None:
    return None if said == true else f"{name} {said}, but it is {true}"


# --- what the noise leaves open --------------------------------------------------------------------------------------


def open_step(truth: Truth, rows: int | None = None) -> float:
    """Of the median of so many rows, as a fraction: three standard errors, and what held-up rows among them do."""
    count = len(truth.plain) if rows is None else rows
    held = sum(row.stall_ms > 0 for row in truth.plain) / max(1, len(truth.plain))
    return 3 * 1.25 * truth.plan.noise / math.sqrt(max(1, count)) + 2 * held * truth.plan.noise


def open_row_ms(truth: Truth, rows: int) -> float:
    """Of the typical excess of so many rows: each has the noise of its own step, and all have that of the baseline,
    which follows the rows around it."""
    step = max(truth.levels)
    return step * (open_step(truth, rows) + open_step(truth, min(25, len(truth.plain))) + 0.005) + 0.01


def costs_ms(truth: Truth) -> tuple[float, float]:
    """The range of what an evaluation takes here, without its checkpoint."""
    all_of = [each.ms for each in truth.evaluations if not truth.lost(each)]
    return min(all_of), max(all_of)


def spikes_ms(truth: Truth) -> tuple[float, float]:
    """The same with checkpoint and stall, as rows show it."""
    all_of = [row.evaluated.all_ms + row.stall_ms for row in truth.visible if row.evaluated]
    return min(all_of), max(all_of)


def jumped_ms(truth: Truth) -> float:
    """What an evaluation row may seem to take more or less, where the speed jumps just there."""
    jumps = dict(truth.jumps)
    return max((abs(jumps[row.iteration] - 1) * row.level_ms for row in truth.visible if row.iteration in jumps), default=0)


def stalled_ms(truth: Truth) -> float:
    """What stalls add to evaluation rows, where so many have one that nobody can tell it from the evaluation; and what
    a jump of the speed does at such a row."""
    stalls = [row.stall_ms for row in truth.visible]
    told_apart = sum(stall > 0 for stall in stalls) * 3 < len(stalls)
    return jumped_ms(truth) + (0.0 if told_apart else max(stalls, default=0.0))


def save_ms(truth: Truth) -> tuple[float, float]:
    all_of = [each.save_ms for each in truth.evaluations if each.save_ms is not None]
    return min(all_of), max(all_of)


# --- slow rows -------------------------------------------------------------------------------------------------------


@check("evaluation_rows")
def _(truth: Truth, said: Numbers, _d: Diagnosis) -> str | None:
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
        by += 0.15 * overhead  # without a plain row the step is an estimate, and said to be one
    return first_of(
        None if said["slow"] <= rows else f"{said['slow']} slow rows, but only {rows} evaluate",
        exactly("rows", said["rows"], len(truth.rows)),
        None if said["interval"] is None else exactly("interval", said["interval"], truth.plan.eval_interval),
        off("each_s", said["each_s"], *(ms / 1000 for ms in spikes_ms(truth)), by=each_by),
        off("overhead_s", said["overhead_s"], overhead, by=by),
        off("overhead_share", said["overhead_share"], overhead / truth.total_s, by=by / truth.total_s + 0.001),
    )


@check("checkpoint_measured")
def _(truth: Truth, said: Numbers, _d: Diagnosis) -> str | None:
    saved = [row for row in truth.visible if row.evaluated and row.evaluated.save_ms is not None]
    unsaved = [row for row in truth.visible if row.evaluated and row.evaluated.save_ms is None]
    if not saved or not unsaved:
        return "there are no rows of both kinds"
    spread = 3 * truth.plan.evaluation_noise * costs_ms(truth)[1] / math.sqrt(min(len(saved), len(unsaved)))
    by = (open_row_ms(truth, min(len(saved), len(unsaved))) + spread + stalled_ms(truth)) / 1000
    evaluation = [ms / 1000 for ms in costs_ms(truth)]
    save = [ms / 1000 for ms in save_ms(truth)]
    low, high = said.get("checkpoint_low_s", said["checkpoint_s"]), said.get("checkpoint_high_s", said["checkpoint_s"])
    inside = low is not None and high is not None and low <= save[1] and save[0] <= high
    return first_of(
        exactly("saved_rows", said["saved_rows"], len(saved)),
        exactly("unsaved_rows", said["unsaved_rows"], len(unsaved)),
        off("evaluation_s", said["evaluation_s"], *evaluation, by=by),
        None if inside else off("checkpoint_s", said["checkpoint_s"], *save, by=by + 0.02 * evaluation[0]),
    )


@check("checkpoint_bounded")
def _(truth: Truth, said: Numbers, _d: Diagnosis) -> str | None:
    rows = len(truth.visible)
    by = (open_row_ms(truth, rows) + stalled_ms(truth)) / 1000
    least = min(save_ms(truth)) / 1000
    return first_of(
        off("spike_s", said["spike_s"], *(ms / 1000 for ms in spikes_ms(truth)), by=by),
        off("predicted_s", said["predicted_s"], *(ms / 1000 for ms in costs_ms(truth)), by=0.25 * said["predicted_s"]),
        None if least <= said["checkpoint_s"] * 1.02 + by else f"at most {said['checkpoint_s']}, but it is {least:.4g}",
    )


@check("checkpoint_at_least")
def _(truth: Truth, said: Numbers, _d: Diagnosis) -> str | None:
    """A lower bound from row 0. What is open: the noise of the two kinds of rows."""
    rows, least = len(truth.visible), min(value for key, value in said.items() if "checkpoint" in key and value)
    by = (open_row_ms(truth, rows) + 3 * truth.plan.evaluation_noise * costs_ms(truth)[1]) / 1000
    most = max(save_ms(truth)) / 1000
    return None if least <= most * 1.02 + by else f"at least {least:.4g}, but it is {most:.4g}"


@check("checkpoint_unknown")
def _(truth: Truth, said: Numbers, _d: Diagnosis) -> str | None:
    by = (open_row_ms(truth, len(truth.visible)) + stalled_ms(truth)) / 1000
    small = min(save_ms(truth)) / 1000 <= 0.35 * said["spike_s"] + by
    return first_of(
        off("spike_s", said["spike_s"], *(ms / 1000 for ms in spikes_ms(truth)), by=by),
        None if said["predicted_s"] is None or small else "the checkpoint is said to be small, and is not",
    )


@check("checkpoint_not_first")
def _(truth: Truth, said: Numbers, _d: Diagnosis) -> str | None:
    first = truth.rows[0]
    if not truth.begins or first.evaluated is None or first.evaluated.save_ms is not None:
        return "the first row is none of the run's start"
    return off("total_s", said["total_s"], first.ms / 1000)


@check("startup")
def _(truth: Truth, said: Numbers, _d: Diagnosis) -> str | None:
    first = truth.rows[0]
    if not truth.begins:
        return "the log does not begin with the start"
    by = (open_row_ms(truth, 1) + 3 * truth.plan.evaluation_noise * costs_ms(truth)[1]) / 1000
    levels = [ms / 1000 for ms in (min(truth.levels), max(truth.levels))]
    evaluation = first.evaluated.ms / 1000 if first.evaluated else 0.0
    range_s = [ms / 1000 for ms in costs_ms(truth)]  # priced by the later ones
    slack = by + (first.stall_ms + stalled_ms(truth)) / 1000 + (range_s[1] - range_s[0])
    nothing = said["compile_s"] == 0 and truth.plan.compiles
    return first_of(
        exactly("iteration", said["iteration"], 0),
        off("total_s", said["total_s"], first.ms / 1000),
        off("step_s", said["step_s"], *levels, by=levels[1] * open_step(truth)),
        off("evaluation_s", said["evaluation_s"], evaluation, by=slack),
        off("compile_s", said["compile_s"], first.compile_ms / 1000, by=slack + EXACT * said["total_s"]),
        "compile is on, and is said to take nothing" if nothing else None,
    )


@check("startup_unsplit", "startup_unknown", "startup_bounded")
def _(truth: Truth, said: Numbers, _d: Diagnosis) -> str | None:
    if not truth.begins:
        return "the log does not begin with the start"
    levels = [ms / 1000 for ms in (min(truth.levels), max(truth.levels))]
    return first_of(
        exactly("iteration", said["iteration"], 0),
        off("total_s", said["total_s"], truth.rows[0].ms / 1000),
        off("step_s", said.get("step_s"), *levels, by=levels[1] * open_step(truth)),
    )


@check("hidden_evaluations")
def _(truth: Truth, said: Numbers, _d: Diagnosis) -> str | None:
    hidden_s = sum(each.all_ms for each in truth.hidden) / 1000
    stalls = sum(row.stall_ms for row in truth.visible) / 1000
    each_ms = open_row_ms(truth, len(truth.visible)) + stalled_ms(truth)
    by = hidden_s * (0.08 + truth.unsteady) + stalls + each_ms * len(truth.hidden) / 1000
    if not truth.visible:  # priced by 2 x eval_iters forward passes alone
        by += 0.3 * hidden_s + sum(each.save_ms or 0.0 for each in truth.hidden) / 1000
    return first_of(
        hidden_of(truth, said),
        off("hidden_s", said["hidden_s"], hidden_s, by=by),
        exactly("log_interval", said["log_interval"], truth.plan.log_interval),
        exactly("eval_interval", said["eval_interval"], truth.plan.eval_interval),
    )


@check("hidden_unpriced")
def _(truth: Truth, said: Numbers, _d: Diagnosis) -> str | None:
    return "a row contains one" if truth.visible and truth.plain else hidden_of(truth, said)


def hidden_of(truth: Truth, said: Numbers) -> str | None:
    """One that comes after the last row, of which nothing tells the time, may count or not."""
    after = sum(each.iteration > truth.rows[-1].iteration for each in truth.hidden)
    counts = [(len(truth.hidden) - less, len(truth.counted) - less) for less in {0, after}]
    said_counts = said["hidden"], said["count"]
    return None if said_counts in counts else f"{said_counts[0]} of {said_counts[1]} hidden, but it is {counts}"


@check("final_evaluation", "evaluation_after_the_last_row", "after_the_last_row")
def _(truth: Truth, _said: Numbers, _d: Diagnosis) -> str | None:
    after = [each for each in truth.counted if each.iteration > truth.rows[-1].iteration]
    return None if after else "nothing comes after the last row"


@check("periodic_stalls")
def _(truth: Truth, said: Numbers, _d: Diagnosis) -> str | None:
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
def _(truth: Truth, said: Numbers, _d: Diagnosis) -> str | None:
    """A row that took longer than its step was held up, if only by chance; one that evaluates, by more than that."""
    held = [row for row in truth.rows if excess_ms(row) > 0.15 * row.level_ms]
    worst = next((row for row in truth.rows if row.iteration == said["iteration"]), None)
    if worst is None or worst not in held:
        return f"iteration {said['iteration']} was not held up"
    beside = worst.evaluated.all_ms if worst.evaluated else 0.0
    by = open_row_ms(truth, 5) + 0.05 * worst.level_ms + 0.07 * beside
    by += truth.unsteady * worst.level_ms if len(truth.plain) < 40 else 0.0  # which level it is on
    by += stalled_ms(truth) if worst.evaluated else 0.0
    total = sum(excess_ms(row) for row in held) / 1000
    return first_of(
        None if said["rows"] <= len(held) else f"{said['rows']} rows held up, but it is {len(held)}",
        off("largest_s", said["largest_s"], excess_ms(worst) / 1000, by=by / 1000),
        None if said["total_s"] <= total * 1.05 + by * said["rows"] / 1000 else f"total_s {said['total_s']} > {total}",
    )


def excess_ms(row: Any) -> float:
    """What nothing in the log explains: the stall, and the noise of the step."""
    return float(row.stall_ms + row.step_ms - row.level_ms)


@check("uneven_rows")
def _(truth: Truth, said: Numbers, _d: Diagnosis) -> str | None:
    longer = sum(row.step_ms + row.stall_ms > 1.005 * row.level_ms for row in truth.plain)
    return first_of(
        None if said["rows"] <= longer else f"{said['rows']} rows took longer, but it is {longer}",
        None if said["normal_rows"] <= len(truth.plain) else f"{said['normal_rows']} normal rows",
    )


@check("no_plain_row")
def _(truth: Truth, said: Numbers, _d: Diagnosis) -> str | None:
    if truth.plain:
        return f"{len(truth.plain)} rows are plain steps"
    return exactly("rows", said["rows"], len(truth.rows))


@check("restarts")
def _(truth: Truth, said: Numbers, _d: Diagnosis) -> str | None:
    true_s = truth.seconds["restart"]
    ends = {process: max(row.iteration for row in truth.told if row.process < process) for process in truth.resumed}
    lost = sum(max(0, ends[process] - at + 1) for process, at in truth.resumed.items())
    by = (0.05 + open_step(truth, 10)) * true_s + sum(open_row_ms(truth, 1) for _ in truth.resumed) / 1000
    if not truth.plain:
        by = true_s  # what a step takes is an estimate then
    return first_of(
        exactly("count", said["count"], len(truth.resumed)),
        exactly("lost_iterations", said["lost_iterations"], lost),
        off("lost_s", said["lost_s"], true_s, by=by),
    )


@check("ended_error")
def _(truth: Truth, _said: Numbers, _d: Diagnosis) -> str | None:
    return None if truth.plan.ending else "the log just ends"


@check("ended_interrupted", "ended_out_of_memory")
def _(truth: Truth, said: Numbers, d: Diagnosis) -> str | None:
    true = {"interrupt": "interrupted", "memory": "out_of_memory"}.get(truth.plan.ending)
    return first_of(
        exactly("ending", d.source.ending, true),
        exactly("last_iteration", said["last_iteration"], truth.rows[-1].iteration),
    )


# --- the speed itself ------------------------------------------------------------------------------------------------


def changes_around(truth: Truth, iteration: int) -> list[float]:
    """By what the true step changes at a place that can be told to within some rows: each jump, and all together."""
    rows = truth.rows
    index = next((k for k, row in enumerate(rows) if row.iteration >= iteration), len(rows) - 1)
    near = rows[max(0, index - max(6, len(rows) // 12)) : index + max(6, len(rows) // 12)]
    jumps = [factor - 1 for at, factor in truth.jumps if near[0].iteration <= at <= near[-1].iteration]
    return [*jumps, near[-1].level_ms / near[0].level_ms - 1]


@check("level_shift", "memory_spill")
def _(truth: Truth, said: Numbers, d: Diagnosis) -> str | None:
    claimed = said["after_ms"] / said["before_ms"] - 1
    true = max(changes_around(truth, said["iteration"]), key=lambda change: change * claimed)
    levels = min(truth.levels), max(truth.levels)
    by = levels[1] * open_step(truth, 5)
    if claimed * true <= 0 or abs(true) < abs(claimed) / 3 - open_step(truth, 5):
        return f"a jump of {claimed:+.1%} at {said['iteration']}, but there it is {true:+.1%}"
    return first_of(
        blamed(truth, said["iteration"]) if "ratio" not in said else None,
        off("before_ms", said["before_ms"], *levels, by=by),
        off("after_ms", said["after_ms"], *levels, by=by),
    )


def blamed(truth: Truth, iteration: int) -> str | None:
    """The card's clock is named as the reason, where the log shows another."""
    near = 6 * truth.plan.log_interval
    if truth.nan_from is not None and abs(truth.nan_from - iteration) <= near and truth.plan.nan_factor != 1:
        return f"blamed on the card at {iteration}, but the loss became nan at {truth.nan_from}"
    for process, at in truth.resumed.items():
        factor = truth.plan.restarts[process - 1][1] if process <= len(truth.plan.restarts) else 1.0
        if abs(at - iteration) <= near and factor != 1:
            return f"blamed on the card at {iteration}, but a new process began at {at}"
    return None


@check("level_shift_at_nan", "speed_changed_with_nan")
def _(truth: Truth, said: Numbers, d: Diagnosis) -> str | None:
    if truth.nan_from is None or abs(truth.nan_from - said["iteration"]) > 12 * truth.plan.log_interval:
        return "the loss did not become nan there"
    return off("after_ms", said.get("after_ms"), min(truth.levels), max(truth.levels))


@check("level_shift_at_restart", "speed_changed_with_restart")
def _(truth: Truth, said: Numbers, d: Diagnosis) -> str | None:
    near = 12 * truth.plan.log_interval
    if not any(abs(at - said["iteration"]) <= near for at in truth.resumed.values()):
        return "no process began there"
    return off("after_ms", said.get("after_ms"), min(truth.levels), max(truth.levels))


@check("drift")
def _(truth: Truth, said: Numbers, d: Diagnosis) -> str | None:
    true = truth.levels[-1] / truth.levels[0] - 1
    jump = max((abs(factor - 1) for _, factor in truth.jumps), default=0.0)
    if jump > 0.05 + open_step(truth, 10):
        return f"without a jump, but there is one of {jump:.1%}"
    return off("drift_share", said["drift_share"], true, by=0.02 + 0.25 * abs(true) + open_step(truth, len(truth.plain) // 8))


# --- mfu -------------------------------------------------------------------------------------------------------------


def steady_off(truth: Truth, said: float | None) -> str | None:
    """W / step, by the range of the steps; printed with two decimals."""
    low, high = truth.mfu_at(max(truth.levels)), truth.mfu_at(min(truth.levels))
    return off("steady mfu", said, low, high, by=0.0001 + high * open_step(truth))


@check("mfu_smoothed")
def _(truth: Truth, said: Numbers, _d: Diagnosis) -> str | None:
    """"The card did not slow down ... throughout"."""
    fifth = max(1, len(truth.levels) // 5)
    allowed = STEADY + math.sqrt(2) * open_step(truth, fifth)
    if truth.slowing > allowed:
        return f"it did not slow down, but the last fifth is {truth.slowing:+.1%}"
    if truth.unsteady > 2 * allowed:
        return f"the same throughout, but the slowest fifth is {truth.unsteady:+.1%} over the fastest"
    return first_of(
        off("printed_last", said["printed_last"], (truth.rows[-1].mfu or 0) / 100),
        steady_off(truth, said["steady_printed"]),
    )


@check("mfu_other_card", "mfu_card_unknown", "mfu_over_100", "mfu_zero", "mfu_card_range")
def _(truth: Truth, said: Numbers, d: Diagnosis) -> str | None:
    steady, achieved = said.get("steady_printed"), said.get("achieved_tflops")
    unknown = d.mfu.card_name is None and truth.plan.gpu is not None
    printed = [row.mfu or 0 for row in truth.rows]
    low, high = (truth.mfu_at(ms) * 312 for ms in (max(truth.levels), min(truth.levels)))
    return first_of(
        "the card is known" if unknown else None,
        "a printed mfu is above 0" if "steady_printed" not in said and max(printed) > 0 and "card" not in said else None,
        steady_off(truth, steady),
        off("achieved_tflops", achieved, low, high, by=312 * 0.0001 + high * open_step(truth)),
    )


@check("utilisation_near_limit", "utilisation_good", "utilisation_half_idle", "utilisation_mostly_idle", "card_above_peak")
def _(truth: Truth, said: Numbers, d: Diagnosis) -> str | None:
    from nanopace.hardware.cards import find_card

    if truth.plan.gpu is None:
        return "the card is unknown"
    peak = find_card(truth.plan.gpu).peak_tflops or math.nan
    low, high = (truth.mfu_at(ms) * 312 / peak for ms in (max(truth.levels), min(truth.levels)))
    return off("card", said["card"], low, high, by=0.0003 + high * open_step(truth))


@check("mfu_unknown")
def _(truth: Truth, said: Numbers, d: Diagnosis) -> str | None:
    told = (truth.plan.mfu and max(row.mfu or 0 for row in truth.rows) > 0.02) or truth.plan.header
    known = told and truth.plan.gpu is not None and truth.plan.cut != "head" and truth.plain
    return "all that it takes is known" if known else None


@check("tokens_unknown")
def _(truth: Truth, said: Numbers, d: Diagnosis) -> str | None:
    return "the log tells the tokens of an iteration" if "tokens per iteration" in truth.text else None


# --- loss ------------------------------------------------------------------------------------------------------------


@check("loss_spikes")
def _(truth: Truth, said: Numbers, d: Diagnosis) -> str | None:
    place = truth.plan.losses.spike_at
    return None if place is not None and said["count"] <= 2 else "no loss was made to stand out"


@check("loss_noise")
def _(truth: Truth, said: Numbers, d: Diagnosis) -> str | None:
    noise = truth.plan.losses.row_noise
    rows = max(5, len(truth.rows) // 2)
    known = said["accumulation"] in (None, truth.plan.shape.accumulation)
    return first_of(
        None if known else f"accumulation {said['accumulation']}",
        off("noise", said["noise"], noise, by=noise * (0.15 + 4 / math.sqrt(rows))),
    )


@check("overfitting")
def _(truth: Truth, said: Numbers, d: Diagnosis) -> str | None:
    curve = truth.curve
    best = min(curve, key=lambda point: (point[1], point[0]))
    if truth.plan.losses.turns_up == 0:
        return "validation does not turn up, and the gap does not grow"
    if curve[-1][1] <= best[1]:
        return "the last validation loss is the best"
    last = truth.evaluations[-1]
    return first_of(
        exactly("best_val_iteration", said["best_val_iteration"], best[0]),
        off("gap", said["gap"], last.val - last.train, by=1e-4),
    )


@check("best_not_saved")
def _(truth: Truth, said: Numbers, d: Diagnosis) -> str | None:
    best = min(truth.curve, key=lambda point: (point[1], point[0]))
    saved = {each.iteration for each in truth.evaluations if each.save_ms is not None}
    return first_of(
        exactly("best_val", said["best_val"], best[1]),
        exactly("best_val_iteration", said["best_val_iteration"], best[0]),
        "it was saved" if best[0] in saved else None,
    )


@check("loss_diverged")
def _(truth: Truth, said: Numbers, d: Diagnosis) -> str | None:
    return exactly("iteration", said["iteration"], truth.nan_from)


@check("forecast")
def _(truth: Truth, said: Numbers, d: Diagnosis) -> str | None:
    """"If the trend holds": where it does, the truth lies within four times the 80% interval, and 80% of the truths
    within it, which is another test."""
    if said["iteration"] <= truth.curve[-1][0] or not said["low"] <= said["loss"] <= said["high"]:
        return f"{said['low']} to {said['high']} at {said['iteration']} is no forecast"
    plan = truth.plan
    if plan.losses.turns_up or truth.nan_from is not None:
        return None
    true, reach = val_of(plan, said["iteration"]), 4 * (said["high"] - said["low"]) + 3 * plan.losses.noise
    return off("loss", said["loss"], true, by=reach)


# --- advice ----------------------------------------------------------------------------------------------------------


@check("raise_eval_interval", "lower_eval_iters", "lower_eval_iters_unknown", "save_less_often")
def _(truth: Truth, said: Numbers, d: Diagnosis) -> str | None:
    plan = truth.plan
    known = {"from_interval": plan.eval_interval, "from_iters": plan.eval_iters}
    wrong = [f"{name} {said[name]}, but it is {true}" for name, true in known.items() if said.get(name, true) != true]
    return first_of(*wrong, "there was but one evaluation" if len(truth.counted) < 2 else None)


@check("align_log_interval")
def _(truth: Truth, said: Numbers, d: Diagnosis) -> str | None:
    return None if truth.hidden else "every evaluation is in a row"


@check("turn_on_compile")
def _(truth: Truth, said: Numbers, d: Diagnosis) -> str | None:
    if truth.plan.compiles:
        return "compile is on"
    return f"about a minute for a run of {truth.total_s:.0f} s" if truth.total_s < 60 else None


@check("larger_micro_batch")
def _(truth: Truth, said: Numbers, d: Diagnosis) -> str | None:
    shape = truth.plan.shape
    same = said["to_batch"] * said["to_accumulation"] == shape.batch_size * shape.accumulation
    return first_of(exactly("from_batch", said["from_batch"], shape.batch_size), None if same else "other tokens")


@check("use_float16", "dtype_float16", "change_dtype")
def _(truth: Truth, said: Numbers, d: Diagnosis) -> str | None:
    return "no card without bf16 ran"


@check("find_the_stall")
def _(truth: Truth, said: Numbers, d: Diagnosis) -> str | None:
    held = sum(max(0.0, excess_ms(row)) for row in truth.rows if excess_ms(row) > 0.1 * row.level_ms)
    return None if held / 1000 > 0.005 * truth.total_s else f"stalls are {held / 1000 / truth.total_s:.2%} of the run"


@check("calm_the_loss")
def _(truth: Truth, said: Numbers, d: Diagnosis) -> str | None:
    return None if truth.nan_from is not None else "the loss is finite"


@check("nothing_to_change")
def _(truth: Truth, said: Numbers, d: Diagnosis) -> str | None:
    """Less than 3% goes to evaluations, checkpoints and stalls, and the steps do not become 10% slower."""
    spent = truth.seconds
    share = (spent["evaluation"] + spent["checkpoint"]) / truth.total_s
    stalls = spent["stall"] / truth.total_s
    return first_of(
        off("overhead_share", said["overhead_share"], share, by=0.004 + open_step(truth, 5)),
        f"{stalls:.1%} of the run are stalls" if stalls > 0.03 else None,
        f"steps became {truth.slowing:+.1%} slower" if truth.slowing > 0.10 + open_step(truth, 5) else None,
    )
