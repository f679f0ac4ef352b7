"""What training and start-up consist of, if the trainer measured it (our ledger).

The trainer adds up the phases of its steps and writes them once a second. Not all of that is training: the extra time
of the first steps is start-up, the extra time of a slow one is a stall, and repeated steps count once. All this is
subtracted from the phases that took longer than normal in those seconds, so that the phases add up to the training
time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from nanopace.diagnosis.result import Phases, Wall
from nanopace.diagnosis.time.slow_rows import Breakdown
from nanopace.medians import typical
from nanopace.run import Phase, Run

_OF_A_STEP: tuple[Phase, ...] = ("data", "step", "optimizer", "bus")


class _StepParts(NamedTuple):
    """The phases of the steps since the trainer's last report."""

    steps: int
    ms: Mapping[Phase, float]


def find_phases(run: Run, breakdown: Breakdown, wall: Wall) -> Phases | None:
    """The phases; None if nothing was measured: rows alone do not show what they consist of."""
    if not any(span.phase == "step" for span in run.spans):
        return None

    def seconds(phase: Phase) -> float:
        return sum(span.ms for span in run.spans if span.phase == phase and not span.background) / 1000

    training = _training_ms(run, breakdown, wall)
    background = sum(save.background_ms or 0.0 for save in run.checkpoints)
    return Phases(
        data_s=training["data"] / 1000,
        forward_backward_s=training["step"] / 1000,
        optimizer_s=training["optimizer"] / 1000,
        startup_s=seconds("startup"),
        compile_s=seconds("compile"),
        logging_s=seconds("logging"),
        other_s=seconds("other"),
        checkpoint_background_s=background / 1000,
        bus_s=training["bus"] / 1000 if any(span.phase == "bus" for span in run.spans) else None,
    )


def _training_ms(run: Run, breakdown: Breakdown, wall: Wall) -> dict[Phase, float]:
    """The phases of all steps, without what is counted elsewhere."""
    reported = _step_parts(run)
    parts = {phase: sum(each.ms.get(phase, 0.0) for each in reported) for phase in _OF_A_STEP}
    lost = [*(each.lost for each in run.restarts), *(each.lost for each in run.rollbacks)]
    again_ms = sum(sum(rows.sum_ms) for rows in lost)
    parts = _subtract(parts, again_ms, parts)
    slow_ms = sum(sum(causes.values()) for causes in breakdown.parts.values())
    parts = _subtract(parts, slow_ms, _excess(reported))
    training_ms = (wall.training_s or 0.0) * 1000
    return _subtract(parts, sum(parts.values()) - training_ms, parts)  # such as an interrupted step


def _step_parts(run: Run) -> list[_StepParts]:
    reports: list[tuple[int, dict[Phase, float]]] = []
    for span in run.spans:
        if span.phase in _OF_A_STEP and not span.background:
            if not reports or reports[-1][0] != span.iteration or span.phase in reports[-1][1]:
                reports.append((span.iteration, {}))
            reports[-1][1][span.phase] = span.ms
    ends = [run.rows.iteration[0] - 1 if len(run.rows) else -1, *(at for at, _ in reports)]
    return [_StepParts(max(1, at - before), ms) for before, (at, ms) in zip(ends, reports, strict=False)]


def _excess(reported: Sequence[_StepParts]) -> dict[Phase, float]:
    """For each phase, the time beyond what it normally takes per step."""
    excess: dict[Phase, float] = {}
    for phase in _OF_A_STEP:
        own = [(each.ms[phase], each.steps) for each in reported if phase in each.ms]
        normal = typical((ms / steps, steps) for ms, steps in own) if own else 0.0
        excess[phase] = sum(max(0.0, ms - steps * normal) for ms, steps in own)
    return excess


def _subtract(parts: Mapping[Phase, float], ms: float, most: Mapping[Phase, float]) -> dict[Phase, float]:
    """The phases minus `ms`: first in proportion to `most` and at most that much each, then the rest in proportion."""
    missing, whole = max(0.0, ms), sum(most.values())
    share = min(1.0, missing / whole) if whole > 0 else 0.0
    left = {phase: max(0.0, each - share * most[phase]) for phase, each in parts.items()}
    missing -= sum(parts.values()) - sum(left.values())
    whole = sum(left.values())
    share = min(1.0, max(0.0, missing / whole)) if whole > 0 else 0.0
    return {phase: each * (1 - share) for phase, each in left.items()}
