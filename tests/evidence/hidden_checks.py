"""What would make statements false about evaluations that no row contains."""

# ruff: noqa: ARG001 (all checkers are called alike)
from __future__ import annotations

from nanopace.diagnosis.result import Diagnosis

from .check import EXACT, Numbers, check, exactly, first_of, off, open_row_ms, stalled_ms
from .truth import Truth


@check("hidden_evaluations")
def _(truth: Truth, said: Numbers, d: Diagnosis) -> str | None:
    after = truth.rows[-1].iteration  # whatever follows the last row may count as hidden or separate
    within = [each for each in truth.hidden if each.iteration <= after]
    hidden_s = sum(each.all_ms for each in (within if said["hidden"] == len(within) else truth.hidden)) / 1000
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
def _(truth: Truth, said: Numbers, d: Diagnosis) -> str | None:
    """The cost is known from rows that also save, or also do not."""
    shown = {row.evaluated.save_ms is None for row in truth.visible if row.evaluated}
    unlike = [each for each in truth.hidden if (each.save_ms is None) not in shown]
    several = len(truth.visible) > 1  # one may have been delayed
    return "rows contain some like each" if not unlike and several and truth.plain else hidden_of(truth, said)


@check("hidden_in_doubt")
def _(truth: Truth, said: Numbers, d: Diagnosis) -> str | None:
    """A range for what they took with their checkpoints, as long as few rows show one."""
    saved = [row for row in truth.visible if row.evaluated and row.evaluated.save_ms is not None]
    within = [each for each in truth.hidden if each.iteration <= truth.rows[-1].iteration]
    true_s = sum(each.all_ms for each in (within if said["hidden"] == len(within) else truth.hidden)) / 1000
    each_ms = open_row_ms(truth, 1) + stalled_ms(truth)
    by = true_s * truth.unsteady + each_ms * len(truth.hidden) / 1000
    return first_of(
        None if len(saved) < 3 else f"{len(saved)} rows show what a save takes",
        None if any(each.save_ms for each in truth.hidden) else "none of them saved",
        hidden_of(truth, said),
        f"{said['low_s']} at least, but it is {true_s}" if true_s < said["low_s"] * (1 - EXACT) - by else None,
        f"{said['high_s']} at most, but it is {true_s}" if true_s > said["high_s"] * (1 + EXACT) + by else None,
    )


def hidden_of(truth: Truth, said: Numbers) -> str | None:
    """Those after the last row may count as hidden or separate."""
    after = sum(each.iteration > truth.rows[-1].iteration for each in truth.hidden)
    hidden, all_of = len(truth.hidden), len(truth.counted)
    counts = [(hidden, all_of), (hidden - after, all_of), (hidden - after, all_of - after)]
    said_counts = said["hidden"], said["count"]
    return None if said_counts in counts else f"{said_counts[0]} of {said_counts[1]} hidden, but it is {counts}"


@check("after_last_row")
def _(truth: Truth, said: Numbers, d: Diagnosis) -> str | None:
    after = [each for each in truth.counted if each.iteration > truth.rows[-1].iteration]
    if not after:
        return "nothing comes after the last row"
    true_s = sum(each.all_ms for each in after) / 1000
    saves = max((each.save_ms or 0.0 for each in truth.evaluations), default=0.0) / 1000
    by = true_s * (0.1 + truth.unsteady) + saves + (open_row_ms(truth, len(truth.visible)) + stalled_ms(truth)) / 1000
    return first_of(
        exactly("iteration", said["iteration"], after[-1].iteration),
        off("after_s", said["after_s"], true_s, by=by) if truth.plain else None,
    )
