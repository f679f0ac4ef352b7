"""Logs with losses but no step times: what they show about the loss; they show nothing about the time.

Everything based on step times is None, and no finding is about it. A few such logs report the total time or the time of
their evaluations, which is kept.
"""

from __future__ import annotations

from array import array

from nanopace.diagnosis.curves import draw_untimed
from nanopace.diagnosis.loss.losses import describe_loss, training_loss_course
from nanopace.diagnosis.mfu.mfu import find_mfu
from nanopace.diagnosis.reading import describe_model, describe_source, reading_findings
from nanopace.diagnosis.result import Ahead, Diagnosis, Finding, Restarts, Step, Throughput, Wall
from nanopace.diagnosis.time.costs import find_costs
from nanopace.diagnosis.time.counting import log_interval
from nanopace.diagnosis.time.faults import find_faults, loss_fault_findings, memory_findings
from nanopace.diagnosis.time.gpu_use import gpu_findings
from nanopace.diagnosis.time.rows import find_pace
from nanopace.diagnosis.time.time_findings import conflicts, ending_findings
from nanopace.diagnosis.time.time_left import iterations_left
from nanopace.diagnosis.time.wall_time import Clock
from nanopace.record import replace
from nanopace.run import Evaluation, Run

_NO_CLOCK = Clock(array("d"), (), array("d"), 0.0, 0.0)


def diagnose_untimed(run: Run) -> Diagnosis:
    """Diagnose a run without step times, without advice."""
    run = replace(run, row_contains_evaluation=False)  # no row time can contain one
    pace = find_pace(run)
    costs = find_costs(run, pace)
    wall, steps = _wall(run), _steps(run)
    throughput = _throughput(run, wall, steps)
    faults = find_faults(run, _NO_CLOCK)
    loss, loss_findings = describe_loss(run)
    restarts = Restarts(
        len(run.restarts), sum(max(0, each.reached - each.iteration + 1) for each in run.restarts), None
    )
    limit = run.number("max_iters")
    remaining = None if limit is None else iterations_left(run, int(limit), run.untimed_rows)
    return Diagnosis(
        source=describe_source(run),
        facts=run.facts,
        step=Step(),
        slow_rows=(),
        evaluations=costs.evaluations,
        checkpoints=costs.checkpoints,
        startup=None,
        restarts=restarts,
        wall=wall,
        ahead=Ahead(max_iters=None if limit is None else int(limit), remaining_iterations=remaining),
        throughput=throughput,
        mfu=find_mfu(run, pace, throughput),
        model=describe_model(run),
        loss=loss,
        findings=(
            *reading_findings(run),
            Finding("untimed_log", {"rows": run.untimed_rows.lines, **_told(run, wall, steps)}),
            *_restarted(restarts),
            *ending_findings(run),
            *conflicts(run),
            *memory_findings(faults),
            *gpu_findings(run),
            *training_loss_course(run),
            *loss_fault_findings(faults),
            *loss_findings,
        ),
        curves=draw_untimed(run, costs.saved),
        gpu_use=run.gpu_use,
        faults=faults,
        notes=run.notes,
        samples=run.samples,
    )


def _wall(run: Run) -> Wall:
    """The total, if the trainer reports it, and the evaluations, if it timed all of them. The rest is mostly training,
    plus saving and loading; how it splits is unknown."""
    total_s = None if run.wall_ms is None else run.wall_ms / 1000
    evaluation_s = _evaluation_s(run.evaluations)
    if total_s is not None and (evaluation_s or 0.0) > total_s:
        evaluation_s = None  # not included in the total
    return Wall(
        total_s=total_s,
        evaluation_s=evaluation_s,
        unknown_s=None if total_s is None else total_s - (evaluation_s or 0.0),
        measured=total_s is not None,
        suspended_s=None,
        rollback_s=None,
    )


def _evaluation_s(evaluations: tuple[Evaluation, ...]) -> float | None:
    """The time of all evaluations; None if the trainer did not time all of them."""
    timed = [each for each in evaluations if each.metric != "core"]
    if not timed or any(each.ms is None for each in timed):
        return None
    return sum(each.ms or 0.0 for each in timed) / 1000


def _steps(run: Run) -> int | None:
    """The number of steps done, if the log starts at the beginning. Trainers count from 0 or from 1."""
    first, last = run.untimed_rows.iteration[0], run.untimed_rows.last_iteration[-1]
    last = max(last, *(each.iteration for each in run.evaluations[-1:]), run.ended_at or 0)
    if run.restarts or run.rollbacks or first > max(1, log_interval(run) or 1):
        return None
    return last + 1 if first == 0 else last


def _throughput(run: Run, wall: Wall, steps: int | None) -> Throughput:
    tokens = run.number("tokens_per_iteration")
    total = tokens * steps if tokens and steps else None
    sequences = run.number("batch_size")
    return Throughput(
        tokens_per_s_overall=total / wall.total_s if total and wall.total_s else None,
        tokens_per_iteration=tokens,
        tokens_total=total,
        micro_batch_sequences=int(sequences) if sequences else None,
    )


def _told(run: Run, wall: Wall, steps: int | None) -> dict[str, float | None]:
    """The total time, and the mean time per step if no evaluation of unknown length is included."""
    apart = wall.evaluation_s is not None or not run.evaluations
    mean_s = wall.unknown_s / steps if wall.unknown_s and steps and apart else None
    return {"total_s": wall.total_s, "mean_step_s": mean_s}


def _restarted(restarts: Restarts) -> list[Finding]:
    if not restarts.count:
        return []
    repeated = restarts.lost_iterations or None
    return [Finding("restarts_untimed", {"count": restarts.count, "lost_iterations": repeated})]
