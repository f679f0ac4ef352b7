"""What would make statements false about the loss, about what to change, and about how the log was read."""

# ruff: noqa: ARG001 (all checkers are called alike)
from __future__ import annotations

import math

from nanopace.diagnosis.result import Diagnosis

from .check import Numbers, check, exactly, first_of, off, open_step
from .time_checks import excess_ms, usual_levels
from .truth import Truth, val_of


@check("untimed_log")
def _(truth: Truth, said: Numbers, d: Diagnosis) -> str | None:
    """A mean is known except for the evaluations, and includes the checkpoints, as the sentence says."""
    if d.timed:
        return "the rows have times"
    steps = max(row.iteration for row in (*truth.rows, *truth.evaluations)) + 1
    evaluated_s = sum(each.ms for each in truth.evaluations if not truth.lost(each)) / 1000
    return first_of(
        exactly("rows", said["rows"], len(truth.rows)),
        off("total_s", said["total_s"], truth.total_s),
        off("mean_step_s", said["mean_step_s"], (truth.total_s - evaluated_s) / steps),
        "steps were done again" if said["mean_step_s"] is not None and truth.resumed else None,
    )


@check("restarts_untimed")
def _(truth: Truth, said: Numbers, d: Diagnosis) -> str | None:
    ends = {process: max(row.iteration for row in truth.told if row.process < process) for process in truth.resumed}
    lost = sum(max(0, ends[process] - at + 1) for process, at in truth.resumed.items())
    return first_of(
        "the rows have times" if d.timed else None,
        exactly("count", said["count"], len(truth.resumed)),
        exactly("lost_iterations", said["lost_iterations"] or 0, lost),
    )


@check("training_loss_course")
def _(truth: Truth, said: Numbers, d: Diagnosis) -> str | None:
    """Means of the first and the last rows; they have those rows' scatter, since the loss falls among them."""
    losses = [row.loss for row in truth.rows if math.isfinite(row.loss)]
    ends = losses[: said["rows"]], losses[-said["rows"] :]
    return first_of(
        "one row tells nothing" if len(losses) < 2 else None,
        *(
            off(name, said[name], min(end), max(end))
            for name, end in zip(("first_loss", "last_loss"), ends, strict=True)
        ),
    )


@check("loss_spikes")
def _(truth: Truth, said: Numbers, d: Diagnosis) -> str | None:
    place = truth.plan.losses.spike_at
    return None if place is not None and said["count"] <= 2 else "no loss was made to stand out"


@check("loss_noise")
def _(truth: Truth, said: Numbers, d: Diagnosis) -> str | None:
    """The median deviation of neighbours' differences, which are correlated: its standard error is 1.5 over the root of
    their number, and one run in many is off by four of these."""
    noise = truth.plan.losses.row_noise
    rows = max(5, sum(row.loss == row.loss for row in truth.rows[len(truth.rows) // 2 :]))
    known = said["accumulation"] in (None, truth.plan.shape.accumulation)
    return first_of(
        None if known else f"accumulation {said['accumulation']}",
        off("noise", said["noise"], noise, by=noise * (0.2 + 6 / math.sqrt(rows))),
    )


@check("overfitting")
def _(truth: Truth, said: Numbers, d: Diagnosis) -> str | None:
    curve = truth.curve
    best = min(curve, key=lambda point: (point[1], point[0]))
    if truth.plan.losses.turns_up == 0:
        return "validation does not turn up, and the gap does not grow"
    if curve[-1][1] <= best[1]:
        return "the last validation loss is the best"
    last = [each for each in truth.evaluations if each.val == each.val][-1]
    return first_of(
        exactly("best_val_iteration", said["best_val_iteration"], best[0]),
        off("gap", said["gap"], last.val - last.train, by=1e-4),
    )


@check("gap_grows")
def _(truth: Truth, said: Numbers, d: Diagnosis) -> str | None:
    """The true gap is constant unless validation turns up. The printed one may scatter by four standard errors of the
    slope through four points."""
    noise = 4 * 1.34 * math.sqrt(2) * truth.plan.losses.noise
    grows = truth.plan.losses.turns_up > 0
    last = [each for each in truth.evaluations if each.val == each.val][-1]
    return first_of(
        None if grows or said["gap_trend"] <= noise else "the gap does not grow",
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
    """ "If the trend holds": where it does, the truth lies within four times the 80% interval, and 80% of the truths
    within it, which is another test."""
    if said["iteration"] <= truth.curve[-1][0] or not said["low"] <= said["loss"] <= said["high"]:
        return f"{said['low']} to {said['high']} at {said['iteration']} is no forecast"
    plan = truth.plan
    if plan.losses.turns_up or truth.nan_from is not None:
        return None
    true, reach = val_of(plan, said["iteration"]), 4 * (said["high"] - said["low"]) + 3 * plan.losses.noise
    return off("loss", said["loss"], true, by=reach)


@check("forecast_withheld")
def _(truth: Truth, said: Numbers, d: Diagnosis) -> str | None:
    """These runs have nanoGPT's schedule, whose cosine ends at iteration 600,000."""
    return "the learning rate hardly falls" if 2 * truth.curve[-1][0] < 100_000 else None


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


@check("rows_cover_several")
def _(truth: Truth, said: Numbers, d: Diagnosis) -> str | None:
    if truth.plan.fork != "covers":
        return "a row's time is that of one iteration"
    return exactly("iterations", said["iterations"], truth.plan.log_interval)


@check("find_the_stall")
def _(truth: Truth, said: Numbers, d: Diagnosis) -> str | None:
    levels = usual_levels(truth)
    excesses = [(excess_ms(row, levels), levels[row.iteration]) for row in truth.rows]
    held = sum(excess for excess, level in excesses if excess > 0.1 * level)
    return None if held / 1000 > 0.005 * truth.total_s else f"stalls are {held / 1000 / truth.total_s:.2%} of the run"


@check("calm_the_loss")
def _(truth: Truth, said: Numbers, d: Diagnosis) -> str | None:
    return None if truth.nan_from is not None else "the loss is finite"


@check("nothing_to_change")
def _(truth: Truth, said: Numbers, d: Diagnosis) -> str | None:
    """Evaluations, checkpoints and stalls take less than 3%, and the steps do not become 10% slower."""
    spent = truth.seconds
    share = (spent["evaluation"] + spent["checkpoint"]) / truth.total_s
    stalls = spent["stall"] / truth.total_s
    held_up = sum(row.stall_ms for row in truth.visible) / 1000 / truth.total_s  # which may pass for the evaluations'
    return first_of(
        off("overhead_share", said["overhead_share"], share, by=0.004 + held_up + open_step(truth, 5)),
        f"{stalls:.1%} of the run are stalls" if stalls > 0.03 else None,
        f"steps became {truth.slowing:+.1%} slower" if truth.slowing > 0.10 + open_step(truth, 5) else None,
    )
