"""No sentence in a report may be false: runs are built from a known truth, and every finding is checked against it.

A sample runs here; bench/evidence.py runs any number. A failure names the seed: `judged(seed)` shows what is false,
`trained(drawn(seed)).text` is the log.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from nanopace import diagnose
from nanopace.diagnosis.codes import FINDINGS
from nanopace.diagnosis.result import Finding

from . import check, check_pair
from .figures import complaints
from .judging import False_, judged, judged_pair, read
from .plan import Losses, Plan, Shape, drawn, drawn_pair
from .truth import Truth, trained, val_of

BLOCKS, RUNS = 10, 40  # in blocks, so that several cores share them
PAIR_BLOCKS, PAIRS = 5, 20


def listed(judge: Callable[[int], list[False_]], seeds: range) -> str:
    """The false sentences: a line for each code, with its first seed."""
    first: dict[str, str] = {}
    for seed in seeds:
        for code, why in judge(seed):
            first.setdefault(code, f"{code}: seed {seed}: {why}")
    return "\n".join(sorted(first.values()))


@pytest.mark.slow
@pytest.mark.parametrize("block", range(BLOCKS))
@pytest.mark.usefixtures("untraced")
def test_no_sentence_about_a_run_is_false(block: int) -> None:
    if false := listed(judged, range(RUNS * block, RUNS * (block + 1))):
        pytest.fail(false, pytrace=False)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(PAIR_BLOCKS))
@pytest.mark.usefixtures("untraced")
def test_no_sentence_about_two_runs_is_false(block: int) -> None:
    if false := listed(judged_pair, range(PAIRS * block, PAIRS * (block + 1))):
        pytest.fail(false, pytrace=False)


def test_every_finding_says_what_would_make_it_false() -> None:
    known = {*check.CHECKS, *check.NOT_IN_TEXT_LOGS, *check_pair.CHECKS, *check_pair.NOT_IN_TEXT_LOGS}
    assert not {*FINDINGS} - known


@pytest.mark.slow
@pytest.mark.usefixtures("untraced")
def test_the_interval_of_the_forecast_holds_what_comes() -> None:
    """80% of the true values if the trend holds; at least two thirds, since the law is only approximate."""
    held = told = 0
    for seed in range(250):
        plan = drawn(seed)
        if plan.losses.turns_up or plan.losses.nan_at or plan.fork != "plain" or plan.restarts:
            continue
        for forecast in diagnose(read(trained(plan))[0]).loss.forecast[:1]:
            told += 1
            held += forecast.low <= val_of(plan, forecast.iteration) <= forecast.high
    assert told >= 30
    assert held >= 2 / 3 * told


# --- the builder and the checkers themselves -------------------------------------------------------------------------

CALM = Plan(
    seed=1,
    shape=Shape(12, 12, 768, 1024, 50304, batch_size=12, accumulation=40),
    losses=Losses(floor=2.8, scale=20.0, power=0.4, noise=0.004, row_noise=0.05),
    max_iters=2000,
    log_interval=10,
    eval_interval=100,
    eval_iters=200,
    step_ms=3000.0,
    noise=0.005,
)


def test_the_same_seed_is_the_same_log() -> None:
    assert trained(drawn(11)).text == trained(drawn(11)).text
    assert drawn_pair(11) == drawn_pair(11)


def test_the_rows_add_up() -> None:
    truth = trained(replace(CALM, stalls=((0.5, 20.0),), restarts=((0.8, 1.0),)))
    rows_ms = sum(row.ms + row.between_ms for row in truth.told)
    assert truth.total_s * 1000 == pytest.approx(rows_ms, rel=1e-6)
    assert truth.seconds["stall"] == pytest.approx(20 * 3)
    assert all(truth.seconds[phase] > 0 for phase in ("training", "evaluation", "checkpoint", "startup", "restart"))


def test_a_calm_run_raises_no_complaint() -> None:
    truth = trained(CALM)
    assert not list(complaints(truth, diagnose(read(truth)[0])))


LIES = {
    "mfu_smoothed": ({"drift": 0.25}, {"printed_last": 0.3, "steady_printed": 0.35}),
    "overfitting": ({}, {"gap": 0.01, "gap_trend": 0.01, "best_val_iteration": 100}),
    "nothing_to_change": ({"drift": 0.3}, {"overhead_share": 0.0}),
    "level_shift": ({}, {"iteration": 1000, "before_ms": 3000.0, "after_ms": 3600.0, "change_share": 0.2}),
    "drift": ({"shifts": ((0.5, 1.3),)}, {"drift_share": 0.3}),
    "stalls": ({}, {"rows": 1, "largest_s": 50.0, "iteration": 510, "total_s": 50.0, "total_share": 0.01}),
    "loss_diverged": ({}, {"iteration": 1000}),
    "no_plain_row": ({}, {"rows": 201}),
    "tokens_unknown": ({}, {"missing": "batch_size"}),
    "best_not_saved": ({"always_save": True}, {"best_val": 3.5, "best_val_iteration": 2000}),
    "restarts": ({}, {"count": 1, "lost_iterations": 100, "lost_s": 25.0}),
    "raise_eval_interval": ({"eval_interval": 2000}, {"from_interval": 2000, "to_interval": 5000, "evaluations": 1}),
    "straggler": ({}, {"rank": 1, "slowest_share": 0.5, "lag_share": 0.1}),
}


@pytest.mark.parametrize("code", LIES)
def test_a_false_sentence_is_found(code: str) -> None:
    changes, numbers = LIES[code]
    truth = trained(replace(CALM, **changes))  # type: ignore[arg-type]
    diagnosis = diagnose(read(truth)[0])
    assert any(found == code for found, _ in complaints(truth, _saying(diagnosis, Finding(code, numbers))))


def _saying(diagnosis: object, finding: Finding) -> object:
    """The same diagnosis with only this finding."""
    from nanopace.record import replace as record_with

    return record_with(diagnosis, findings=(finding,))  # type: ignore[type-var]


@pytest.mark.parametrize(
    ("said", "changes"),
    [
        ({"median_ms": 3300.0}, {}),
        ({"median_ms": 3000.0}, {"shifts": ((0.1, 1.4),)}),
    ],
)
def test_a_false_figure_is_found(said: dict[str, float], changes: dict[str, object]) -> None:
    from nanopace.record import replace as record_with

    truth: Truth = trained(replace(CALM, **changes))  # type: ignore[arg-type]
    diagnosis = diagnose(read(truth)[0])
    wrong = record_with(diagnosis, step=record_with(diagnosis.step, **said))
    assert "step.median_ms" in {name for name, _ in complaints(truth, wrong)}
