"""Findings about time, most expensive first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nanopace.diagnosis.result import Cause, Checkpoints, Evaluations, Faults, Finding, Number, Restarts, SlowRow, Wall
from nanopace.diagnosis.time.counting import log_interval
from nanopace.diagnosis.time.experiment import SEVERAL
from nanopace.diagnosis.time.faults import (
    data_stall_findings,
    rollback_findings,
    suspension_findings,
    waited_for_data_s,
)
from nanopace.diagnosis.time.pace_findings import lost_to_levels_s, step_findings
from nanopace.diagnosis.time.rows import Pace
from nanopace.diagnosis.time.slow_rows import MOST_OF_START, STALLS, Breakdown
from nanopace.diagnosis.time.wall_time import Clock, Event
from nanopace.medians import typical
from nanopace.run import Evaluation, Run


def time_findings(
    run: Run, pace: Pace, breakdown: Breakdown, wall: Wall, restarts: Restarts, clock: Clock, faults: Faults
) -> list[Finding]:
    """Groups of findings, each about one thing that took time, most expensive first."""
    slow_rows = breakdown.slow_rows
    groups = [
        ((wall.evaluation_s or 0.0) + (wall.checkpoint_s or 0.0), _evaluations(run, pace, breakdown, wall, clock)),
        (wall.startup_s, _startup(run, pace, breakdown)),
        _of_events("gap_between_rows", [event for event in clock.events if event.bucket == "unknown"]),
        (_sum_s(slow_rows, "periodic") + _sum_s(slow_rows, "stall"), _stalls(breakdown, wall)),
        (_sum_s(slow_rows, "data"), _fetches(run, breakdown, wall)),
        # Evaluations and checkpoints that took far longer than usual; reported stalls have a known reason.
        _of_events("long_events", [each for each in clock.events if each.bucket == "stall" and each.stall is None]),
        (waited_for_data_s(faults), data_stall_findings(faults, wall)),
        (wall.suspended_s, suspension_findings(faults)),
        (wall.restart_s, _restarts(restarts)),
        (wall.rollback_s, rollback_findings(faults, wall)),
        (lost_to_levels_s(pace.step), step_findings(run, pace)),
    ]
    groups.sort(key=lambda group: -(group[0] or 0.0))
    return [
        *ending_findings(run),
        *(finding for _, group in groups for finding in group),
        *conflicts(run),
        *_untimed(run),
    ]


def _outside_clock(run: Run) -> list[Finding]:
    """The evaluations whose time is unknown. The trainer may have timed others, such as benchmarks."""
    untimed = {each.iteration: each.count for each in run.evaluations if each.ms is None}
    timed = [each.ms for each in run.evaluations if each.ms is not None]
    timed += [each.ms for each in run.spans if each.phase == "evaluation"]
    if not untimed:
        return []
    known = {"timed": len(timed) or None, "timed_s": sum(timed) / 1000 if timed else None}
    return [Finding("evaluations_outside_clock", {"count": sum(untimed.values()), **known})]


def _evaluations(run: Run, pace: Pace, breakdown: Breakdown, wall: Wall, clock: Clock) -> list[Finding]:
    evaluations, findings = breakdown.costs.evaluations, []
    if not run.row_contains_evaluation:
        return [] if evaluations.each_ms is not None else _outside_clock(run)
    costs = [
        (_cost_ms(breakdown, evaluation.row) / run.rows.count[evaluation.row], run.rows.count[evaluation.row])
        for evaluation in breakdown.costs.counted
        if evaluation.row is not None and pace.basis != "none"
    ]
    slow = [
        row for row in breakdown.slow_rows if "evaluation" in row.causes and not {"compile", "restart"} & {*row.causes}
    ]
    if costs and slow and wall.overhead_share is not None:
        numbers = {
            "slow": _lines(slow),
            "rows": run.rows.lines,
            "interval": evaluations.interval,
            "each_s": typical(costs) / 1000,
            "overhead_s": (wall.evaluation_s or 0.0) + (wall.checkpoint_s or 0.0),
            "overhead_share": wall.overhead_share,
        }
        findings.append(Finding("evaluation_rows", numbers))
    findings += _checkpoint(breakdown, typical(costs) if costs else None)
    return findings + _hidden_findings(run, breakdown, clock)


def _cost_ms(breakdown: Breakdown, row: int) -> float:
    """The time of a row beyond its step, without stalls."""
    return sum(ms for cause, ms in breakdown.parts.get(row, {}).items() if cause not in STALLS)


def _hidden_findings(run: Run, breakdown: Breakdown, clock: Clock) -> list[Finding]:
    """Findings about evaluations that no row contains."""
    evaluations, findings = breakdown.costs.evaluations, []
    last = run.rows.last_iteration[-1] if len(run.rows) else 0
    unseen = [each for each in breakdown.costs.counted if each.row is None]
    hidden = sum(each.count for each in unseen if each.iteration < last)
    after = [each for each in unseen if each.iteration >= last]  # earlier ones are inside the last row
    without_cost = breakdown.costs.without_cost
    in_doubt = [each for each in without_cost if each.iteration < last]
    if in_doubt and breakdown.costs.saves_in_doubt:
        findings += _hidden_in_doubt(breakdown, clock, hidden, in_doubt)
    elif in_doubt and not any(_several_show(breakdown, each) for each in in_doubt):
        findings.append(Finding("hidden_unpriced", {"hidden": hidden, "count": evaluations.count}))
    elif hidden and not in_doubt and evaluations.interval and (logged := log_interval(run)):
        intervals: dict[str, Number] = {"log_interval": logged, "eval_interval": evaluations.interval}
        amounts = {"hidden": hidden, "count": evaluations.count, "hidden_s": clock.hidden_s}
        findings.append(Finding("hidden_evaluations", {**amounts, **intervals}))
        if evaluations.interval % logged:
            findings.append(Finding("align_log_interval", intervals))
    if after and clock.after_s > 0 and not any(each.iteration >= last for each in without_cost):
        findings.append(Finding("after_last_row", {"iteration": after[-1].iteration, "after_s": clock.after_s}))
    return findings


def _several_show(breakdown: Breakdown, hidden: Evaluation) -> bool:
    """Whether several rows contain such an evaluation (with or without a save), if at a cost that is lost in the
    noise."""
    costs = breakdown.costs
    alike = [each for each in costs.counted if (each.iteration in costs.saved) == (hidden.iteration in costs.saved)]
    return sum(each.count for each in alike if each.row is not None) > 1


def _hidden_in_doubt(breakdown: Breakdown, clock: Clock, hidden: int, saving: Sequence[Evaluation]) -> list[Finding]:
    """What hidden evaluations took if those that save did so in no time, and if a save takes as long as the few rows
    with one suggest."""
    each_ms, longest = breakdown.costs.evaluations.each_ms, _excess_in_doubt(breakdown)
    if each_ms is None or not longest:
        return []
    saves, most_ms = sum(each.count for each in saving), max(ms for ms, _ in longest)
    amounts = {"hidden": hidden, "count": breakdown.costs.evaluations.count}
    bounds = {"low_s": clock.hidden_s + saves * each_ms / 1000, "high_s": clock.hidden_s + saves * most_ms / 1000}
    return [Finding("hidden_in_doubt", {**amounts, **bounds})]


def _checkpoint(breakdown: Breakdown, spike_ms: float | None) -> list[Finding]:
    """How much of an evaluation row is its checkpoint."""
    evaluations, checkpoints = breakdown.costs.evaluations, breakdown.costs.checkpoints
    if spike_ms is None or not checkpoints.saved_rows:
        return []
    if evaluations.contains_checkpoint and evaluations.each_ms is not None:
        spike_ms = evaluations.each_ms  # of the rows with a save
    together = {"spike_s": spike_ms / 1000, "predicted_s": _seconds(evaluations.predicted_ms)}
    rows = {"saved_rows": checkpoints.saved_rows, "unsaved_rows": checkpoints.unsaved_rows}
    if breakdown.costs.saves_in_doubt:
        return _in_doubt(breakdown)
    if not evaluations.contains_checkpoint:
        return _both_costs(evaluations, checkpoints, rows)
    findings = []
    if checkpoints.unsaved_rows >= SEVERAL:
        findings.append(Finding("checkpoint_other_speed", rows))
    elif checkpoints.unsaved_rows:
        findings.append(Finding("checkpoint_few_without", rows))
    elif checkpoints.each_ms is not None:
        findings.append(Finding("checkpoint_bounded", {**together, "checkpoint_s": checkpoints.each_ms / 1000}))
    elif checkpoints.at_least_ms is None:
        less = (evaluations.predicted_ms or 0.0) > spike_ms
        findings.append(Finding("checkpoint_unknown", together if less else {**together, "predicted_s": None}))
    if checkpoints.at_least_ms is not None:
        least_s = checkpoints.at_least_ms / 1000
        findings.append(Finding("checkpoint_at_least", {"spike_s": spike_ms / 1000, "checkpoint_s": least_s}))
    return findings


def _in_doubt(breakdown: Breakdown) -> list[Finding]:
    each_ms, rows = breakdown.costs.evaluations.each_ms, _excess_in_doubt(breakdown)
    if each_ms is None or not rows:
        return []
    longer_s = sum(count * (ms - each_ms) for ms, count in rows) / 1000
    numbers = {"saved_rows": sum(count for _, count in rows), "evaluation_s": each_ms / 1000, "longer_s": longer_s}
    return [Finding("save_in_doubt", numbers)]


def stalls_in_doubt_s(findings: Sequence[Finding]) -> float:
    """Of what counts as stalls, what may have been checkpoints."""
    return sum(each.number("longer_s") for each in findings if each.code == "save_in_doubt")


def _excess_in_doubt(breakdown: Breakdown) -> list[tuple[float, int]]:
    """The extra time of each row with a slow save or a stall (which one is unclear), and how many rows it stands for,
    also of those that are not slow."""
    costs, found = breakdown.costs, []
    for each in costs.counted:
        parts = breakdown.parts.get(-1 if each.row is None else each.row, {})
        if costs.saves_in_doubt and each.iteration in costs.saved and "stall" in parts:
            found.append((sum(parts.values()) / each.count, each.count))
    return found


def _both_costs(evaluations: Evaluations, checkpoints: Checkpoints, rows: Mapping[str, Number]) -> list[Finding]:
    """The finding if both costs are known."""
    each_ms, save_ms = evaluations.each_ms, checkpoints.each_ms
    if each_ms is None or save_ms is None:
        return []
    costs = {"evaluation_s": each_ms / 1000, "checkpoint_s": save_ms / 1000}
    if checkpoints.basis == "upper_bound":
        few = checkpoints.saved_rows < SEVERAL and (checkpoints.low_ms or 0.0) > 0
        return [Finding("checkpoint_few_saves" if few else "checkpoint_within_scatter", {**costs, **rows})]
    low_ms, high_ms = checkpoints.wide_interval
    interval = {"checkpoint_low_s": _seconds(low_ms), "checkpoint_high_s": _seconds(high_ms)}
    if checkpoints.basis == "stamps":
        return [Finding("checkpoint_stamped", {**costs, **interval})]
    share = save_ms / (each_ms + save_ms) if save_ms else 0.0
    return [Finding("checkpoint_measured", {**costs, **interval, "checkpoint_share": share, **rows})]


def _seconds(ms: float | None) -> float | None:
    return None if ms is None else ms / 1000


def _startup(run: Run, pace: Pace, breakdown: Breakdown) -> list[Finding]:
    startup = breakdown.startup
    if startup is None:
        return []
    total = {"iteration": run.rows.iteration[0], "total_s": startup.total_ms / 1000, "step_s": startup.step_ms / 1000}
    evaluations = breakdown.costs.evaluations
    most_ms, over_ms = evaluations.each_ms, startup.total_ms - startup.step_ms
    if pace.covers(0) > 1:
        first_row = {"iterations": pace.covers(0), "total_s": total["total_s"], "step_s": total["step_s"]}
        findings = [Finding("startup_of_several", first_row)]
    elif not run.row_contains_evaluation:
        findings = [Finding("startup_compile", total)]
    elif (
        startup.evaluation_ms is None
        and evaluations.contains_checkpoint
        and most_ms
        and most_ms < MOST_OF_START * over_ms
    ):
        bounds = {"evaluation_s": most_ms / 1000, "compile_s": (over_ms - most_ms) / 1000}
        findings = [Finding("startup_bounded", {**total, **bounds})]
    elif startup.evaluation_ms is None:
        findings = [Finding("startup_together", total)]
    elif not startup.evaluation_ms or startup.compile_ms is None:
        findings = [Finding("startup_unsplit", total)]
    else:
        parts = {"evaluation_s": startup.evaluation_ms / 1000, "compile_s": startup.compile_ms / 1000}
        findings = [Finding("startup", {**total, **parts})]
    first = breakdown.slow_rows[0]
    if run.checkpoints and "evaluation" in first.causes and "checkpoint" not in first.causes:
        findings.append(Finding("checkpoint_not_first", {"total_s": startup.total_ms / 1000}))
    return findings


def _stalls(breakdown: Breakdown, wall: Wall) -> list[Finding]:
    findings = []
    periodic = [row for row in breakdown.slow_rows if "periodic" in row.causes]
    if periodic:
        total_s = _sum_s(periodic, "periodic")
        numbers = {
            "rows": _lines(periodic),
            "interval": breakdown.period,
            "each_s": typical((row.parts_ms["periodic"], row.count) for row in periodic) / 1000,
            "total_s": total_s,
            "total_share": total_s / wall.awake_s,
        }
        findings.append(Finding("periodic_stalls", numbers))
    stalls = [row for row in breakdown.slow_rows if "stall" in row.causes]
    if breakdown.costs.saves_in_doubt:  # then those with a save have a finding of their own
        stalls = [row for row in stalls if "checkpoint" not in row.causes]
    if stalls:
        findings.append(Finding("stalls", _held_up(stalls, "stall", wall)))
    return findings


def _held_up(rows: Sequence[SlowRow], cause: Cause, wall: Wall) -> dict[str, Number]:
    """How many rows one cause held up, for how long in all, and which one the longest."""
    largest, total_s = max(rows, key=lambda row: row.parts_ms[cause]), _sum_s(rows, cause)
    return {
        "rows": _lines(rows),
        "largest_s": largest.parts_ms[cause] / 1000,
        "iteration": largest.iteration,
        "total_s": total_s,
        "total_share": total_s / wall.awake_s,
    }


def _fetches(run: Run, breakdown: Breakdown, wall: Wall) -> list[Finding]:
    fetched = [row for row in breakdown.slow_rows if "data" in row.causes]
    if not fetched:
        return []
    share = {"fetch_share": len(run.fetches) / run.rows.lines}
    return [Finding("fetch_stalls", _held_up(fetched, "data", wall) | share)]


def _of_events(code: str, events: Sequence[Event]) -> tuple[float, list[Finding]]:
    """What these events took, and the finding about them."""
    if not events:
        return 0.0, []
    total_s, largest = sum(event.ms for event in events) / 1000, max(events, key=lambda event: event.ms)
    numbers = {"count": len(events), "total_s": total_s, "largest_s": largest.ms / 1000}
    return total_s, [Finding(code, {**numbers, "iteration": largest.iteration})]


def _sum_s(rows: Sequence[SlowRow], cause: Cause) -> float:
    return sum(row.count * row.parts_ms.get(cause, 0.0) for row in rows) / 1000


def _lines(rows: Sequence[SlowRow]) -> int:
    """The number of log rows these stand for."""
    return sum(row.count for row in rows)


def _restarts(restarts: Restarts) -> Sequence[Finding]:
    if not restarts.count:
        return ()
    numbers = {"count": restarts.count, "lost_iterations": restarts.lost_iterations, "lost_s": restarts.lost_s}
    return (Finding("restarts", numbers),)


def ending_findings(run: Run) -> list[Finding]:
    if run.ending in (None, "finished") or not len(run.logged):
        return []
    return [Finding(f"ended_{run.ending}", {"last_iteration": run.logged.last_iteration[-1]})]


def conflicts(run: Run) -> list[Finding]:
    return [Finding("conflict", {"knob": knob, "used": used, "other": other}) for knob, used, other in run.conflicts]


def _untimed(run: Run) -> list[Finding]:
    return [Finding(f"untimed_{stage}", {"rows": rows}) for stage, rows in run.untimed.items()]
