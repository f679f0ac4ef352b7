"""What the checkers of findings share: where they are registered, and the tolerance for a run's noise.

A checker knows what would make a finding false, given the truth that its log was built from: it returns a complaint, or
None if the sentence is true. Figures must be right to 2% plus the run's noise (three standard errors); claims must hold
exactly. A finding without a checker fails a test: whoever adds a finding says what would make it false.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from nanopace.diagnosis.result import Diagnosis

from .truth import Truth

Numbers = Mapping[str, Any]
Checker = Callable[[Truth, Numbers, Diagnosis], "str | None"]

EXACT = 0.02  # relative tolerance of a figure
STEADY = 0.05  # a step that changed by less "did not change"
ESTIMATED = 0.4  # of a step where no row is plain: the report says that it is an estimate
CHECKS: dict[str, Checker] = {}

# Findings that no nanoGPT text log leads to, each with what it needs. If one appears anyway, it is false.
NOT_IN_TEXT_LOGS: Mapping[str, str] = {
    "evaluations_outside_clock": "nanochat's clock, which stops for evaluations; nanoGPT's runs on",
    "clock_set_to_zero": "modded-nanogpt's clock, which was set to zero after the first steps",
    "rows_ahead_of_gpu": "modded-nanogpt's clock, which runs on and waits for the GPU at evaluations",
    "batch_scheduled": "modded-nanogpt's code",
    "attention_scheduled": "modded-nanogpt's code",
    "final_loss": "modded-nanogpt's code",
    "layers_repeated": "parameter-golf's log",
    "level_shift_scheduled": "modded-nanogpt's code",
    "slower_as_scheduled": "modded-nanogpt's code",
    "startup_of_several": "a clock that runs on",
    "whole_seconds": "Hugging Face's Trainer, whose progress bar has no fractions",
    "rate_with_evaluations": "the same",
    "bar_hides_time": "the same",
    "tracked_series": "a tracker's file",
    "untimed_sft": "nanochat",
    "untimed_rl": "nanochat",
    "printed_rate_wrong": "nanochat",
    "core_metric": "nanochat, and those that run HellaSwag",
    "counts_from_one": "llm.c",
    "rate_smoothed": "llm.c",
    "mfu_causal": "llm.c",
    "evaluation_with_samples": "build-nanogpt",
    "seconds_as_ms": "programs typed from build-nanogpt's video",
    "gpus_unknown": "build-nanogpt under torchrun",
    "many_runs": "a file of hundreds of runs; none is built here",
    "other_ranks": "a rank before each line; none is built here",
    "interleaved_processes": "two processes in one log; none is built here",
    "quoted_log": "prose around the log; none is built here",
    "log_truncated": "a compressed log; none is built here",
    "unread_evaluations": "lines that no reader knows; none is built here",
    "rate_per_gpu": "torchtitan and lingua",
    "rate_wrong": "litgpt",
    "iterations_are_micro_batches": "litgpt",
    "card_variants": "a card's name that leaves its variant open; none is built here",
    "dtype_float32": "a run in float32; none is built here",
    "use_float16": "a card without bf16; none is built here",
    "leave_float16": "a run in float16; none is built here",
    "level_shift_at_batch": "a batch that changes; none is built here",
    "level_shift_at_power_limit": "the card's sensors",
    "cpu_pace": "a run on a CPU; none is built here",
    "ran_on_cpu": "a run on a CPU; none is built here",
    "long_events": "a trainer that times evaluations and checkpoints",
    "suspended": "a trainer that notices",
    "data_stalls": "a trainer that times its data",
    "fetch_stalls": "a trainer that logs its downloads",
    "rollbacks": "a trainer that goes back",
    "micro_batch_reduced": "a trainer that survives a full memory",
    "micro_batch_reduced_at_start": "the same",
    "micro_batch_reduced_in_evaluation": "the same",
    "straggler": "times of several ranks",
    "ended_diverged": "a trainer that stops by itself",
    "ended_corrupted": "a trainer that stops by itself",
    "conflict": "two sources of one setting; none is built here",
    "card_without_peak": "a card that is not in the table; none is built here",
    "utilisation_measured": "a card that was measured",
    "utilisation_power_limited": "the card's sensors",
    "throttled_heat": "the card's sensors",
    "throttled_hardware": "the card's sensors",
    "throttled_power": "the card's sensors",
    "energy": "the card's sensors",
    "skipped_steps": "a trainer that skips",
    "find_the_straggler": "times of several ranks",
    "smaller_micro_batch": "a trainer that survives a full memory",
}


def check(*codes: str) -> Callable[[Checker], Checker]:
    def note(checker: Checker) -> Checker:
        CHECKS.update(dict.fromkeys(codes, checker))
        return checker

    return note


def off(name: str, said: float | None, low: float, high: float | None = None, *, by: float = 0.0) -> str | None:
    """A complaint unless the figure is in [low, high], widened by 2% and by an absolute tolerance."""
    high = low if high is None else high
    if said is None:
        return None
    if low - EXACT * abs(low) - by <= said <= high + EXACT * abs(high) + by:
        return None
    return f"{name} {said:.6g}, but it is {low:.6g}" + (f" to {high:.6g}" if high != low else "")


def first_of(*complaints: str | None) -> str | None:
    return next((each for each in complaints if each), None)


def exactly(name: str, said: object, true: object) -> str | None:
    return None if said == true else f"{name} {said}, but it is {true}"


# --- what the noise leaves open --------------------------------------------------------------------------------------


def open_step(truth: Truth, rows: int | None = None) -> float:
    """The relative tolerance of a median over rows: three standard errors, plus the effect of delayed rows."""
    count = len(truth.plain) if rows is None else rows
    held = sum(row.stall_ms > 0 for row in truth.plain) / max(1, len(truth.plain))
    if rows is None and not truth.plain:
        return ESTIMATED + 3 * truth.plan.noise
    return 3 * 1.25 * truth.plan.noise / math.sqrt(max(1, count)) + 2 * held * truth.plan.noise


def open_row_ms(truth: Truth, rows: int) -> float:
    """The tolerance of the typical excess of rows: each has the noise of its own step, and all have that of the
    baseline, which follows the rows around it. Without a plain row, the step is an estimate, and reported as one."""
    noise = open_step(truth, rows) + open_step(truth, min(25, len(truth.plain)))
    return max(truth.levels) * (noise + 0.005 + (0.0 if truth.plain else ESTIMATED)) + 0.01


def costs_ms(truth: Truth) -> tuple[float, float]:
    """The range of an evaluation's cost here, without its checkpoint."""
    all_of = [each.ms for each in truth.evaluations if not truth.lost(each)]
    return min(all_of), max(all_of)


def spikes_ms(truth: Truth) -> tuple[float, float]:
    """The same with checkpoint and stall, as rows show it."""
    all_of = [row.evaluated.all_ms + row.stall_ms for row in truth.visible if row.evaluated]
    return min(all_of), max(all_of)


def jumped_ms(truth: Truth) -> float:
    """How much more or less an evaluation row may seem to take if the speed jumps right there."""
    before_ms = {
        row.iteration: row.level_ms / factor
        for row in truth.visible
        for at, factor in truth.jumps
        if at == row.iteration
    }
    return max((abs(row.level_ms - before_ms.get(row.iteration, row.level_ms)) for row in truth.visible), default=0.0)


def stalled_ms(truth: Truth) -> float:
    """What stalls add to evaluation rows, if so many have one that it cannot be told from the evaluation, and the
    effect of a speed jump at such a row."""
    kinds: dict[bool, list[float]] = {True: [], False: []}  # with and without a save: each has its own cost
    for row in truth.visible:
        kinds[row.evaluated is not None and row.evaluated.save_ms is not None].append(row.stall_ms)
    told_apart = all(sum(stall > 0 for stall in stalls) * 3 < max(1, len(stalls)) for stalls in kinds.values())
    most = max((row.stall_ms for row in truth.visible), default=0.0)
    return jumped_ms(truth) + (0.0 if told_apart else most)


def save_ms(truth: Truth) -> tuple[float, float]:
    all_of = [each.save_ms for each in truth.evaluations if each.save_ms is not None]
    return min(all_of), max(all_of)
