from __future__ import annotations

import math
from dataclasses import replace

import pytest

from nanopace.diagnosis.mfu import find_mfu, mfu_findings
from nanopace.diagnosis.result import Finding, Mfu
from nanopace.diagnosis.rows import find_pace
from nanopace.diagnosis.spikes import find_spikes
from nanopace.diagnosis.throughput import find_throughput
from nanopace.diagnosis.wall import account
from nanopace.run import GpuUse, Row, Rows, Run

from .synthetic import known, nanogpt_run, rows_run

WORK = {"tokens_per_iteration": 524_288, "flops_per_token": 300.0e6, "flops_per_token_causal": 271.7e6}


def mfu_of(run: Run) -> tuple[Mfu, dict[str, Finding]]:
    pace = find_pace(run)
    wall, _, _ = account(run, pace, find_spikes(run, pace))
    mfu = find_mfu(run, pace, find_throughput(run, pace, wall))
    return mfu, {finding.code: finding for finding in mfu_findings(run, mfu)}


def test_the_smoothed_figure_falls_and_the_steady_one_does_not() -> None:
    mfu, findings = mfu_of(nanogpt_run(mfu=0.1206))
    assert mfu.printed_last is not None
    assert mfu.printed_last < 0.1
    assert mfu.steady_printed == pytest.approx(0.1206, abs=0.0003)
    assert set(findings) == {"mfu_smoothed", "mfu_card_unknown"}
    assert mfu.achieved_tflops == pytest.approx(0.1206 * 312, rel=0.003)


def test_where_slow_rows_come_early_the_average_is_undone() -> None:
    mfu, _ = mfu_of(nanogpt_run(mfu=0.1206, log_interval=250, eval_interval=500))
    assert mfu.steady_printed == pytest.approx(0.1206, rel=0.01)


def test_long_after_a_slow_row_the_average_has_forgotten_it() -> None:
    run = nanogpt_run(mfu=0.1206, eval_interval=0, stalls={200: 5000.0})
    assert run.rows[3].mfu is not None
    assert run.rows[3].mfu < 0.115
    mfu, findings = mfu_of(run)
    assert mfu.steady_printed == pytest.approx(0.1206, abs=0.0003)
    assert "mfu_smoothed" not in findings


def test_a_shifted_level_is_measured_where_the_median_is() -> None:
    mfu, _ = mfu_of(nanogpt_run(mfu=0.12, pace=lambda iteration: 2.0 if iteration > 4000 else 1.0))
    assert mfu.steady_printed == pytest.approx(0.06, rel=0.02)


def test_an_unsmoothed_figure_is_the_median_of_normal_rows() -> None:
    rows = Rows(
        [Row(0, 9000.0, mfu=0.01), *(Row(index, 100.0, mfu=0.4) for index in range(1, 20)), Row(20, 500.0, mfu=0.08)]
    )
    mfu, _ = mfu_of(Run("log", "nanochat", rows, row_contains_evaluation=False, facts=known({})))
    assert mfu.steady_printed == 0.4
    assert mfu.printed_last == 0.08


def test_of_the_card_that_ran() -> None:
    mfu, findings = mfu_of(nanogpt_run(step_ms=3909.8, noise=0.0, mfu=0.1289, facts=WORK | {"gpu": "RTX 4070"}))
    assert mfu.achieved_tflops == pytest.approx(40.2, abs=0.05)
    assert mfu.card == pytest.approx(0.69, abs=0.002)
    assert mfu.card_name == "NVIDIA GeForce RTX 4070"
    assert mfu.card_causal is not None
    assert mfu.card_causal == pytest.approx(0.69 * 271.7 / 300, abs=0.002)
    assert mfu.verdict == "near_limit"
    assert set(findings) == {"utilisation_near_limit", "mfu_other_card", "mfu_smoothed"}


def at_limit(run: Run, at_power_limit: int, samples: int = 100) -> Run:
    watched = GpuUse(200, watts=90.0, sm_mhz=1980.0, training_samples=samples, at_power_limit=at_power_limit)
    return replace(run, gpu_use=replace(watched, limited_mhz=1545.0, limited_watts=695.0))


def test_a_card_at_its_power_limit_is_not_idle() -> None:
    """An H200 at 695 of 700 W held 1545 of 1980 MHz."""
    run = nanogpt_run(step_ms=3909.8, noise=0.0, mfu=None, facts=WORK | {"flops_per_token": 150e6, "gpu": "RTX 4070"})
    mfu, findings = mfu_of(at_limit(run, 97))
    assert mfu.verdict == "power_limited"
    numbers = {"card": mfu.card, "card_name": "NVIDIA GeForce RTX 4070", "at_limit": 97, "samples": 100}
    assert findings["utilisation_power_limited"].numbers == numbers | {"limited_watts": 695.0, "limited_mhz": 1545.0}
    assert not {"utilisation_good", "utilisation_half_idle"} & set(findings)


@pytest.mark.parametrize(
    ("flops", "often", "verdict"),
    [
        (520e6, 100, "above_peak"),
        (355e6, 100, "near_limit"),  # what it says is true at any power
        (220e6, 50, "power_limited"),
        (150e6, 50, "power_limited"),
        (150e6, 49, "half_idle"),
        (40e6, 100, "power_limited"),
        (40e6, 0, "mostly_idle"),
    ],
)
def test_the_power_limit_counts_where_it_is_reached_most_of_the_time(flops: float, often: int, verdict: str) -> None:
    run = nanogpt_run(step_ms=3909.8, noise=0.0, mfu=None, facts=WORK | {"flops_per_token": flops, "gpu": "RTX 4070"})
    assert mfu_of(at_limit(run, often))[0].verdict == verdict
    assert mfu_of(at_limit(run, 0, samples=0))[0].verdict == mfu_of(run)[0].verdict  # asked in its start alone


@pytest.mark.parametrize(
    ("flops", "verdict"),
    [(520e6, "above_peak"), (355e6, "near_limit"), (220e6, "good"), (150e6, "half_idle"), (40e6, "mostly_idle")],
)
def test_verdicts(flops: float, verdict: str) -> None:
    facts = WORK | {"flops_per_token": flops, "gpu": "RTX 4070"}
    mfu, findings = mfu_of(nanogpt_run(step_ms=3909.8, facts=facts))
    assert mfu.verdict == verdict
    assert ("card_above_peak" if verdict == "above_peak" else f"utilisation_{verdict}") in findings


def test_tflops_are_per_gpu() -> None:
    mfu, _ = mfu_of(nanogpt_run(step_ms=3909.8, noise=0.0, facts=WORK | {"gpu_count": 8}))
    assert mfu.achieved_tflops == pytest.approx(40.2 / 8, abs=0.01)


def test_a_card_that_nobody_knows() -> None:
    mfu, findings = mfu_of(nanogpt_run(facts=WORK | {"gpu": "Voodoo 3"}))
    assert (mfu.card, mfu.card_name, mfu.card_tflops, mfu.verdict) == (None, "Voodoo 3", None, None)
    assert "card_without_peak" in findings
    assert "mfu_card_unknown" not in findings


def test_a_card_without_a_peak() -> None:
    mfu, findings = mfu_of(nanogpt_run(facts=WORK | {"gpu": "GTX 1080 Ti"}))
    assert (mfu.card, mfu.card_tflops) == (None, None)
    assert set(findings) == {"card_without_peak", "mfu_smoothed"}


def test_more_than_all_and_nothing_at_all() -> None:
    assert "mfu_over_100" in mfu_of(nanogpt_run(mfu=1.63))[1]
    mfu, findings = mfu_of(nanogpt_run(mfu=0.00001))
    assert mfu.steady_printed == 0.0
    assert set(findings) == {"mfu_zero", "mfu_unknown"}
    assert findings["mfu_zero"].numbers["achieved_tflops"] is None


def test_what_is_missing_is_named() -> None:
    _, findings = mfu_of(nanogpt_run(mfu=None, facts={"n_layer": 12, "block_size": 1024, "vocab_size": 50_304}))
    assert findings["mfu_unknown"].numbers["missing"] == "batch_size, gradient_accumulation_steps, n_embd, gpu"
    _, findings = mfu_of(nanogpt_run(mfu=None, facts=WORK))
    assert findings["mfu_unknown"].numbers["missing"] == "gpu"


def test_a_log_whose_every_row_evaluates_has_no_steady_figure() -> None:
    run = rows_run([9000.0] + [1000.0] * 5, evaluated=range(6))
    run = replace(run, rows=Rows([replace(row, mfu=0.01) for row in run.rows]))
    assert mfu_of(run)[0].steady_printed is None


@pytest.mark.parametrize(("peak", "share"), [(600.0, 0.262144), (0.0, None), (-1.0, None), (math.inf, None)])
def test_the_share_of_what_the_card_was_measured_to_reach(peak: float, share: float | None) -> None:
    run = rows_run([1000.0] * 20, facts={**WORK, "gpu": "NVIDIA H200", "measured_tflops": peak})
    found = mfu_of(run)[1].get("utilisation_measured")
    assert (None if found is None else found.numbers["measured_share"]) == (share and pytest.approx(share, rel=1e-3))
