"""What training and start-up were made of, where the trainer measured it (our ledger).

The trainer gathers what its steps are made of and tells it once a second, for all steps since it told last. Not all of
that is training: what the first steps took beyond a step is start-up, what a slow one took beyond it is a stall, and
steps that were done again count once. So that the parts of training are parts of it, this is taken out of them where it
was: from the parts that took longer in those seconds than they usually do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from nanopace.diagnosis.result import Phases, Wall
from nanopace.diagnosis.time.slow_rows import Spikes
from nanopace.medians import typical
from nanopace.run import Phase, Run

_OF_A_STEP: tuple[Phase, ...] = ("data", "step", "optimizer")


class _Told(NamedTuple):
    """What the steps since the last time were made of."""

    steps: int
    ms: Mapping[Phase, float]


def find_phases(run: Run, spikes: Spikes, wall: Wall) -> Phases | None:
    """None where nothing was measured: a log of rows does not know what a row is made of."""
    if not any(span.phase == "step" for span in run.spans):
        return None

    def seconds(phase: Phase) -> float:
        return sum(span.ms for span in run.spans if span.phase == phase and not span.background) / 1000

    training = _training_ms(run, spikes, wall)
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
    )


def _training_ms(run: Run, spikes: Spikes, wall: Wall) -> dict[Phase, float]:
    """The parts of all steps, without what is counted elsewhere."""
    told = _told(run)
    parts = {phase: sum(each.ms.get(phase, 0.0) for each in told) for phase in _OF_A_STEP}
    lost = [*(each.lost for each in run.restarts), *(each.lost for each in run.rollbacks)]
    again_ms = sum(sum(rows.sum_ms) for rows in lost)
    parts = _less(parts, again_ms, parts)
    slow_ms = sum(sum(causes.values()) for causes in spikes.parts.values())
    parts = _less(parts, slow_ms, _beyond_usual(told))
    return _less(parts, sum(parts.values()) - wall.training_s * 1000, parts)  # of a step that was cut off, say


def _told(run: Run) -> list[_Told]:
    found = []
    told: dict[Phase, float] = {}
    at, before = 0, run.rows.iteration[0] - 1 if len(run.rows) else -1
    for span in run.spans:
        if span.phase not in _OF_A_STEP or span.background:
            continue
        if told and (span.iteration != at or span.phase in told):
            found.append(_Told(max(1, at - before), told))
            told, before = {}, at
        at = span.iteration
        told[span.phase] = span.ms
    return [*found, _Told(max(1, at - before), told)]


def _beyond_usual(told: Sequence[_Told]) -> dict[Phase, float]:
    """By part, what all the times come to in which it took longer per step than it does at most times."""
    beyond = dict.fromkeys(_OF_A_STEP, 0.0)
    for phase in _OF_A_STEP:
        own = [(each.ms[phase], each.steps) for each in told if phase in each.ms]
        if own:
            usual = typical((ms / steps, steps) for ms, steps in own)
            beyond[phase] = sum(max(0.0, ms - steps * usual) for ms, steps in own)
    return beyond


def _less(parts: Mapping[Phase, float], ms: float, most: Mapping[Phase, float]) -> dict[Phase, float]:
    """The parts without so many ms: by what each can miss at `most`, and what is not in there from all alike."""
    missing, whole = max(0.0, ms), sum(most.values())
    share = min(1.0, missing / whole) if whole > 0 else 0.0
    left = {phase: max(0.0, each - share * most[phase]) for phase, each in parts.items()}
    missing -= sum(parts.values()) - sum(left.values())
    whole = sum(left.values())
    share = min(1.0, max(0.0, missing / whole)) if whole > 0 else 0.0
    return {phase: each * (1 - share) for phase, each in left.items()}
