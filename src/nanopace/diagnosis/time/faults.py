"""Problems that did not end the run: sleep, skipped steps, rollbacks, full memory, a straggler, loss spikes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from nanopace.diagnosis.loss.loss_spikes import loss_spikes
from nanopace.diagnosis.result import Faults, Finding, Number, Setback, Stall, Wall
from nanopace.diagnosis.time.wall_time import Clock, lost_rows_ms
from nanopace.incidents import MicroBatch, StallReason
from nanopace.run import Run

SHOWN = 10  # skipped iterations to list
FEW_SKIPPED = 3  # more skipped steps than this are not chance

MOSTLY = 0.6  # of the steps: a straggler is the slowest in this share ...
FEWEST_STEPS = 20  # ... of at least this many, ...
LEAST_LAG = 0.03  # ... takes this much more time for its own work, ...
BEYOND_CHANCE = 4.0  # ... and is this many standard deviations more often the slowest than an equal rank would be

_REDUCED = {
    "startup": "micro_batch_reduced_at_start",
    "step": "micro_batch_reduced",
    "evaluation": "micro_batch_reduced_in_evaluation",
}


def find_faults(run: Run, clock: Clock) -> Faults:
    """All faults, in numbers."""
    return Faults(
        stalls=tuple(
            Stall(event.iteration, event.stall, event.ms / 1000, end_s)
            for event, end_s in zip(clock.events, clock.event_end_s, strict=True)
            if event.stall is not None
        ),
        skipped_steps=len(run.skipped),
        skipped_streaks=_streaks(run.skipped),
        skipped_iterations=run.skipped[:SHOWN],
        spikes=loss_spikes(run),
        rollbacks=tuple(
            Setback(each.iteration, each.failed_at, each.lost.lines, lost_rows_ms(each) / 1000)
            for each in run.rollbacks
        ),
        micro_batches=run.micro_batches,
        ranks=run.rank_lags,
    )


def _streaks(iterations: Sequence[int]) -> int:
    return len(iterations) and 1 + sum(after != before + 1 for before, after in pairwise(iterations))


# --- what took time: findings of the wall clock ----------------------------------------------------------------------


def suspension_findings(faults: Faults) -> list[Finding]:
    """Sleep is not a stall to investigate, so it is reported separately."""
    slept = _stalls(faults, "suspend")
    if not slept:
        return []
    return [Finding("suspended", {"count": len(slept), "suspended_s": sum(each.length_s for each in slept)})]


def data_stall_findings(faults: Faults, wall: Wall) -> list[Finding]:
    waited = _stalls(faults, "data")
    if not waited:
        return []
    largest = max(waited, key=lambda each: each.length_s)
    total_s = waited_for_data_s(faults)
    numbers = {
        "count": len(waited),
        "total_s": total_s,
        "total_share": total_s / wall.awake_s if wall.awake_s else 0.0,
        "largest_s": largest.length_s,
        "iteration": largest.iteration,
    }
    return [Finding("data_stalls", numbers)]


def waited_for_data_s(faults: Faults) -> float:
    """The stall time whose cause is known."""
    return sum(each.length_s for each in _stalls(faults, "data"))


def rollback_findings(faults: Faults, wall: Wall) -> list[Finding]:
    if not faults.rollbacks:
        return []
    last = faults.rollbacks[-1]
    numbers = {
        "count": len(faults.rollbacks),
        "failed_at": last.failed_at,
        "iteration": last.iteration,
        "lost_iterations": sum(each.lost_iterations for each in faults.rollbacks),
        "lost_s": wall.rollback_s,
    }
    return [Finding("rollbacks", numbers)]


def _stalls(faults: Faults, reason: StallReason) -> list[Stall]:
    return [each for each in faults.stalls if each.reason == reason]


# --- memory and ranks ------------------------------------------------------------------------------------------------


def memory_findings(faults: Faults) -> list[Finding]:
    """One finding per place where memory ran out, however often the micro-batch was halved."""
    findings = []
    for where, code in _REDUCED.items():
        changes = [each for each in faults.micro_batches if each.where == where]
        if changes:
            numbers = {"from_batch": changes[0].before, "to_batch": changes[-1].batch_size}
            if where != "evaluation":
                numbers["to_accumulation"] = changes[-1].accumulation
            if where != "startup":
                numbers["iteration"] = changes[0].iteration
            findings.append(Finding(code, numbers))
    return findings


def training_batch(faults: Faults) -> MicroBatch | None:
    """The micro-batch that training fell back to when memory ran out."""
    return next((each for each in reversed(faults.micro_batches) if each.where != "evaluation"), None)


def straggler_findings(run: Run, faults: Faults) -> list[Finding]:
    """The rank that most steps wait for, if any. Among equal ranks, each is the slowest in one of N steps."""
    world_size = int(run.number("world_size") or 0)
    steps = sum(each.steps for each in faults.ranks)
    if world_size < 2 or steps < FEWEST_STEPS:
        return []
    slowest = faults.ranks[0]
    share, chance = slowest.steps / steps, 1 / world_size
    beyond = (share - chance) / math.sqrt(chance * (1 - chance) / steps)
    if share < MOSTLY or beyond < BEYOND_CHANCE or slowest.lag is None or slowest.lag < LEAST_LAG:
        return []
    numbers = {"rank": slowest.rank, "slowest_share": share, "lag_share": slowest.lag}
    return [Finding("straggler", numbers)]


# --- the loss --------------------------------------------------------------------------------------------------------


def loss_fault_findings(faults: Faults) -> list[Finding]:
    findings = []
    if faults.skipped_steps:
        shown = ", ".join(map(str, faults.skipped_iterations)) + (" …" if faults.skipped_steps > SHOWN else "")
        numbers: dict[str, Number] = {
            "count": faults.skipped_steps,
            "streaks": faults.skipped_streaks,
            "iterations": shown,
        }
        findings.append(Finding("skipped_steps", numbers))
    if faults.spikes:
        largest = max(faults.spikes, key=lambda each: each.z)
        numbers = {"count": len(faults.spikes), "largest_z": largest.z, "iteration": largest.iteration}
        findings.append(Finding("loss_spikes", numbers))
    return findings
