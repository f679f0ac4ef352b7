"""When a run reached which step: the same clock for nanoGPT's log and our ledger. Used by time_to_loss.py.

The clock runs from the first evaluation, before the first step, until the last weights are evaluated and saved. It
leaves out compilation and counts every later evaluation and checkpoint. nanoGPT's first row includes compilation, the
first evaluation and the first step; its last row includes a step after the last weights. So rows 1 to N, which are N
steps with their evaluations and checkpoints, match what our clock counts.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from nanopace.ledger import CheckpointEvent, CompileEvent, EvalEvent, Event, StepEvent
from nanopace.run import Run

Value = bool | int | float | str
EVAL_WINDOWS = 1280  # per split and evaluation: 20 batches of 64
SHORT = {
    "batch": "batch_size",
    "accum": "gradient_accumulation_steps",
    "lr": "learning_rate",
    "iters": "max_iters",
    "warmup": "warmup_iters",
}


@dataclass(frozen=True, slots=True)
class Moment:
    """An evaluation during training, on the trainer's own windows."""

    step: int
    seconds: float
    loss: float


@dataclass(frozen=True, slots=True)
class Trace:
    steps: int  # up to the last weights
    tokens: int
    seconds: float
    evaluations: tuple[Moment, ...]


def trace_of_log(run: Run, tokens_per_step: int) -> Trace:
    """The trace of nanoGPT's log. Its last evaluation comes with its last checkpoint."""
    ms = {row.iteration: row.ms for row in run.rows}
    evaluated = [each for each in run.evaluations if each.iteration > 0 and each.val is not None]
    if not evaluated or any(step not in ms for step in range(1, evaluated[-1].iteration + 1)):
        raise ValueError("the log has no evaluation after the first, or rows are missing before it")
    elapsed = {0: 0.0}
    for step in range(1, evaluated[-1].iteration + 1):
        elapsed[step] = elapsed[step - 1] + ms[step] / 1000
    moments = [Moment(each.iteration, elapsed[each.iteration], each.val or 0.0) for each in evaluated]
    last = moments[-1]
    return Trace(last.step, last.step * tokens_per_step, last.seconds, tuple(moments))


def trace_of_ledger(events: Sequence[Event]) -> Trace:
    """The trace of our ledger. The last checkpoint is written while its weights are evaluated: the later of the two
    ends the clock."""
    evaluated = [each for each in events if isinstance(each, EvalEvent)]
    if len(evaluated) < 2 or evaluated[0].iteration != 0:
        raise ValueError("the ledger has no evaluation at step 0, or no later one")
    first, last = evaluated[0], evaluated[-1]
    moments = tuple(
        Moment(each.iteration, _seconds(events, first, each), each.val)
        for each in evaluated[1:]
        if each.val is not None and not math.isnan(each.val)
    )
    background = [each.background_ms for each in events if isinstance(each, CheckpointEvent) if _belongs(each, last)]
    still_writing = max(0.0, max((each or 0.0 for each in background), default=0.0) - (last.ms or 0.0)) / 1000
    tokens = {each.iteration: each.tokens or 0 for each in events if isinstance(each, StepEvent)}
    trained = sum(count for iteration, count in tokens.items() if iteration < last.iteration)
    return Trace(last.iteration, trained, _seconds(events, first, last) + still_writing, moments)


def seconds_of_steps(events: Sequence[Event], steps: int) -> float:
    """The time of the first `steps` steps alone, without evaluations and checkpoints, as modded-nanogpt counts."""
    return sum(each.ms for each in events if isinstance(each, StepEvent) and each.iteration < steps) / 1000


def seconds_of_rows(run: Run, steps: int) -> float:
    """The same, from nanoGPT's log, whose rows contain them: a row with an evaluation counts as one without."""
    evaluated = {each.iteration for each in run.evaluations}
    ms = {row.iteration: row.ms for row in run.rows if 0 < row.iteration <= steps}
    plain = median([each for iteration, each in ms.items() if iteration not in evaluated])
    return sum(plain if iteration in evaluated else each for iteration, each in ms.items()) / 1000


def _belongs(save: CheckpointEvent, evaluation: EvalEvent) -> bool:
    return save.iteration == evaluation.iteration


def _seconds(events: Sequence[Event], first: EvalEvent, until: EvalEvent) -> float:
    """Seconds between two evaluations, without compilation in between."""
    begin, end = first.at_ms or 0.0, until.at_ms or 0.0
    compiled = sum(each.ms for each in events if isinstance(each, CompileEvent) and begin < (each.at_ms or 0.0) <= end)
    return (end - begin - compiled) / 1000


# --- settings --------------------------------------------------------------------------------------------------------


def parse_setting(text: str) -> dict[str, Value]:
    """Knobs such as batch=64,lr=6e-4, with nanoGPT's names or the short ones above. A value may contain commas."""
    knobs: dict[str, Value] = {}
    for part in filter(None, re.split(r",(?=\s*\w+=)", text.strip())):
        name, equals, written = part.strip().partition("=")
        if not equals or not name.isidentifier():
            raise ValueError(f"{part}: a setting must be name=value,name=value,...")
        knobs[SHORT.get(name, name)] = _value(written)
    return knobs


def _value(written: str) -> Value:
    try:
        value = ast.literal_eval(written)
    except (ValueError, SyntaxError):
        return written
    return value if isinstance(value, (bool, int, float, str)) else written


def complete(shared: Mapping[str, Value], given: Mapping[str, Value]) -> dict[str, Value]:
    """A setting with the knobs that follow from it. A recipe has its own learning rate and warm-up."""
    knobs = {**shared, **given}
    steps = int(knobs["max_iters"])
    rate = float(knobs.get("learning_rate", 6e-4))
    own = "recipe" in given and given["recipe"] != "gpt2"
    schedule: dict[str, Value] = {
        "learning_rate": rate,
        "min_lr": rate / 10,
        "warmup_iters": min(30, steps // 6),
    }
    return {
        "lr_decay_iters": steps,
        "eval_interval": evaluations_every(steps),
        "eval_iters": math.ceil(EVAL_WINDOWS / int(knobs["batch_size"])),
        "log_interval": 1,
        **({} if own else schedule),
        **knobs,
    }


def evaluations_every(steps: int) -> int:
    """The interval for three evaluations after the first, or fewer, so that the last one is at the end."""
    return next(each for each in range(math.ceil(steps / 3), steps + 1) if steps % each == 0)
