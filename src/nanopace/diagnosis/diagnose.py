"""From a Run to its Diagnosis: all steps in order."""

from __future__ import annotations

from nanopace.diagnosis.advice import advise
from nanopace.diagnosis.curves import draw
from nanopace.diagnosis.invariants import withhold_false_findings
from nanopace.diagnosis.loss.losses import describe_loss, training_loss_course
from nanopace.diagnosis.mfu.mfu import find_mfu
from nanopace.diagnosis.mfu.mfu_findings import mfu_findings
from nanopace.diagnosis.other_trainers import said_elsewhere
from nanopace.diagnosis.reading import describe_model, describe_source, reading_findings
from nanopace.diagnosis.result import Diagnosis
from nanopace.diagnosis.time.faults import find_faults, loss_fault_findings, memory_findings, straggler_findings
from nanopace.diagnosis.time.gpu_use import gpu_findings
from nanopace.diagnosis.time.phases import find_phases
from nanopace.diagnosis.time.rows import find_pace
from nanopace.diagnosis.time.slow_rows import break_down_rows
from nanopace.diagnosis.time.throughput import find_throughput, throughput_findings
from nanopace.diagnosis.time.time_findings import time_findings
from nanopace.diagnosis.time.time_left import look_ahead
from nanopace.diagnosis.time.wall_time import account
from nanopace.diagnosis.untimed import diagnose_untimed
from nanopace.record import replace
from nanopace.run import Run


def diagnose(run: Run) -> Diagnosis:
    """Return what a run means. It calculates from the log and from what `nanopace tune` measured on this machine's
    card. It never fails; unknowns are None."""
    diagnosis = _diagnose(run) if len(run.rows) or not len(run.untimed_rows) else diagnose_untimed(run)
    diagnosis = withhold_false_findings(replace(diagnosis, findings=(*diagnosis.findings, *advise(run, diagnosis))))
    return replace(diagnosis, findings=said_elsewhere(run, diagnosis.findings))


def _diagnose(run: Run) -> Diagnosis:
    """Diagnose a log with times, without advice."""
    pace = find_pace(run)
    breakdown = break_down_rows(run, pace)
    wall, restarts, clock = account(run, pace, breakdown)
    faults = find_faults(run, clock)
    throughput = find_throughput(run, pace, wall)
    mfu = find_mfu(run, pace, throughput)
    loss, loss_findings = describe_loss(run)

    diagnosis = Diagnosis(
        source=describe_source(run),
        facts=run.facts,
        step=pace.step,
        slow_rows=breakdown.slow_rows,
        evaluations=breakdown.costs.evaluations,
        checkpoints=breakdown.costs.checkpoints,
        startup=breakdown.startup,
        restarts=restarts,
        wall=wall,
        ahead=look_ahead(run, pace, breakdown, wall, clock),
        throughput=throughput,
        mfu=mfu,
        model=describe_model(run),
        loss=loss,
        findings=(
            *reading_findings(run),
            *time_findings(run, pace, breakdown, wall, restarts, clock, faults),
            *memory_findings(faults),
            *straggler_findings(run, faults),
            *mfu_findings(run, pace, mfu),
            *gpu_findings(run, mfu.verdict),
            *throughput_findings(run, pace),
            *([] if run.evaluations else training_loss_course(run)),
            *loss_fault_findings(faults),
            *loss_findings,
        ),
        curves=draw(run, pace, breakdown, mfu, clock),
        phases=find_phases(run, breakdown, wall),
        gpu_use=run.gpu_use,
        faults=faults,
        notes=run.notes,
        samples=run.samples,
    )
    if any(finding.code == "loss_diverged" for finding in diagnosis.findings):  # do not praise a broken run
        kept = tuple(each for each in diagnosis.findings if not each.code.startswith("utilisation_"))
        diagnosis = replace(diagnosis, findings=kept)
    return diagnosis
