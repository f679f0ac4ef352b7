"""A run in one word, which its findings never contradict, and only flags that its trainer accepts."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from nanopace.diagnosis.result import Diagnosis, Finding
from nanopace.views.page.health import Health, flags_of, health
from nanopace.wording.catalog import words

from ..cases import case_1

NOTHING = Finding("nothing_to_change", {"overhead_share": 0.004}, advice=True)
RAISE = Finding(
    "raise_eval_interval", {"from_interval": 500, "to_interval": 2000, "evaluations": 10}, 166.0, 0.046, True
)
SHIFT = {"iteration": 900, "before_ms": 100.0, "after_ms": 150.0, "change_share": 0.5}


def run_with(*findings: Finding, **changes: Any) -> Diagnosis:
    return dataclasses.replace(case_1(), findings=findings, **changes)


def judged(*findings: Finding, **changes: Any) -> Health:
    return health(run_with(*findings, **changes), words("en"))


def used(verdict: str | None) -> dict[str, Any]:
    return {"mfu": dataclasses.replace(case_1().mfu, verdict=verdict)}


def test_case_1_loses_time_and_can_be_told_how_to_stop() -> None:
    told = health(case_1(), words("en"))
    assert (told.state, told.tone, told.picture) == ("savings", "warn", "times")
    assert told.flags == "--eval_interval=2000"


@pytest.mark.parametrize(
    ("code", "state", "tone", "picture"),
    [
        ("loss_diverged", "diverged", "bad", "loss"),
        ("ended_diverged", "diverged", "bad", "loss"),
        ("ended_out_of_memory", "out_of_memory", "bad", "times"),
        ("ended_error", "error", "bad", "times"),
        ("straggler", "attention", "warn", "times"),
        ("skipped_steps", "attention", "warn", "loss"),
        ("overfitting", "attention", "warn", "loss"),
        ("best_not_saved", "attention", "warn", "loss"),
    ],
)
def test_the_gravest_thing_is_the_word(code: str, state: str, tone: str, picture: str) -> None:
    told = judged(Finding(code, {}), RAISE, NOTHING, **used("good"))
    assert (told.state, told.tone, told.picture) == (state, tone, picture)


def test_a_slow_down_that_cost_nothing_to_speak_of_needs_no_attention() -> None:
    assert judged(Finding("level_shift", {**SHIFT, "lost_s": 600.0})).state == "attention"
    assert judged(Finding("level_shift", {**SHIFT, "lost_s": 1.0})).state == "clear"


def test_healthy_is_only_what_is_known_to_be() -> None:
    assert judged(NOTHING, **used("good")).word == "Healthy"
    assert judged(NOTHING, **used(None)).word == "No problem found"  # how well the card is used is unknown
    assert judged(NOTHING, **used("mostly_idle")).word == "The GPU is mostly idle"
    assert judged(NOTHING, **used("half_idle")).word == "The GPU is more than half idle"
    assert judged(RAISE, **used("mostly_idle")).word == "Time can be saved"
    assert judged(Finding("turn_on_compile", advice=True)).word == "One change to try"
    stopped = dataclasses.replace(case_1().source, ending="interrupted")
    assert judged(NOTHING, source=stopped, **used("good")).word == "Interrupted"
    few = dataclasses.replace(case_1().step, normal_rows=14)
    assert judged(step=few).word == "Not enough is known"
    assert judged(**used("good")).word == "No problem found"


def test_lost_time_that_is_in_no_row_is_shown_on_the_wall_clock() -> None:
    assert judged(RAISE, slow_rows=()).picture == "wall"
    assert judged(NOTHING, slow_rows=()).picture == "times"


@pytest.mark.parametrize(
    ("advice", "flags"),
    [
        (RAISE, "--eval_interval=2000"),
        (Finding("lower_eval_iters", {"from_iters": 200, "to_iters": 50}), "--eval_iters=50"),
        (Finding("use_float16", {"card_name": "Tesla T4", "dtype": None}), "--dtype=float16"),
        (Finding("turn_on_compile"), "--compile=True"),
        (
            Finding("larger_micro_batch", {"from_batch": 8, "to_batch": 32, "to_accumulation": 5}),
            "--batch_size=32 --gradient_accumulation_steps=5",
        ),
        (
            Finding("smaller_micro_batch", {"to_batch": 4, "to_accumulation": None}),
            None,  # a flag without a value would be a guess
        ),
        (Finding("lower_eval_iters_unknown", {"factor": 4}), None),
        (Finding("find_the_stall", {"interval": None}), None),
        (Finding("calm_the_loss", {"learning_rate": 0.001}), None),
    ],
)
def test_a_change_is_a_flag_where_it_is_a_knob_with_a_value(advice: Finding, flags: str | None) -> None:
    assert flags_of(advice, case_1()) == flags
    other = dataclasses.replace(case_1(), source=dataclasses.replace(case_1().source, format="torchtitan"))
    assert flags_of(advice, other) is None
    elsewhere = dataclasses.replace(advice, numbers={**advice.numbers, "elsewhere": True})
    assert flags_of(elsewhere, case_1()) is None
