"""Tokens per second, from normal rows only."""

from __future__ import annotations

from nanopace.diagnosis.result import Finding, Step, Throughput, Wall
from nanopace.diagnosis.time.rows import Pace, micro_steps
from nanopace.diagnosis.time.wall_time import steps_after_rows
from nanopace.run import Run

SECONDS_PER_DAY = 86_400
SECONDS_PER_MINUTE = 60
TOKEN_KNOBS = ("batch_size", "gradient_accumulation_steps", "block_size")  # their product is the tokens per iteration


def measured_step_ms(step: Step) -> float | None:
    """The step time if some rows are plain steps; without such rows, it would be an estimate at best."""
    return step.median_ms or None if step.normal_rows else None


def find_throughput(run: Run, pace: Pace, wall: Wall) -> Throughput:
    """The speed in tokens, from the step time."""
    tokens = run.number("tokens_per_iteration")
    step_s = (measured_step_ms(pace.step) or 0.0) / 1000
    per_s = tokens / step_s if tokens and step_s else None
    rows = run.rows
    iterations = rows.last_iteration[-1] - rows.iteration[0] + 1 + steps_after_rows(run) if len(rows) else 0
    total = tokens * iterations if tokens else None
    awake_s = wall.awake_s
    printed_s = run.told_training_s
    micro, sequences = micro_steps(run), run.number("batch_size")
    return Throughput(
        tokens_per_s=per_s,
        tokens_per_s_overall=total / awake_s if total and awake_s else None,
        tokens_per_day=None if per_s is None else per_s * SECONDS_PER_DAY,
        tokens_per_iteration=tokens,
        tokens_total=total,
        micro_batch_ms=1000 * step_s / micro if micro and step_s else None,
        micro_batch_sequences=int(sequences) if sequences else None,
        # Printed in units of 0.01 minutes.
        told_training_s=printed_s if printed_s is not None and printed_s >= SECONDS_PER_MINUTE else None,
    )


def throughput_findings(run: Run, pace: Pace) -> list[Finding]:
    """Findings: the missing knobs if tokens are unknown, or a wrong printed rate."""
    tokens = run.number("tokens_per_iteration")
    if not tokens:
        if measured_step_ms(pace.step) is None or any(each.code == "batch_scheduled" for each in run.caveats):
            return []  # nothing follows from them, or it is known not to be a single number
        return [Finding("tokens_unknown", {"missing": ", ".join(missing_for_tokens(run))})]
    if run.told_tokens is not None and run.told_tokens != tokens:
        return [Finding("printed_rate_wrong", {"printed_batch": run.told_tokens, "batch": int(tokens)})]
    return []


def missing_for_tokens(run: Run) -> list[str]:
    """The unknown knobs among those that tokens per iteration depend on."""
    if run.number("tokens_per_iteration"):
        return []
    return [knob for knob in TOKEN_KNOBS if run.number(knob) is None] or ["tokens_per_iteration"]
