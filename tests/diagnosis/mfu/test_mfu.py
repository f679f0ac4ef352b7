from __future__ import annotations

import math
from dataclasses import replace

import pytest

from nanopace.diagnosis.mfu.mfu import find_mfu
from nanopace.diagnosis.mfu.mfu_findings import mfu_findings
from nanopace.diagnosis.result import Finding, Mfu
from nanopace.diagnosis.time.rows import find_pace
from nanopace.diagnosis.time.slow_rows import break_down_rows
from nanopace.diagnosis.time.throughput import find_throughput
from nanopace.diagnosis.time.wall_time import account
from nanopace.run import Fact, FactValue, GpuUse, Row, Rows, Run

from ..synthetic import known, nanogpt_run, rows_run

WORK = {"tokens_per_iteration": 524_288, "flops_per_token": 300.0e6, "flops_per_token_causal": 271.7e6}


def mfu_of(run: Run) -> tuple[Mfu, dict[str, Finding]]:
    pace = find_pace(run)
    wall, _, _ = account(run, pace, break_down_rows(run, pace))
    mfu = find_mfu(run, pace, find_throughput(run, pace, wall))
    return mfu, {finding.code: finding for finding in mfu_findings(run, pace, mfu)}


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
        (355e6, 100, "near_limit"),  # true at any power
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
    assert mfu_of(at_limit(run, 0, samples=0))[0].verdict == mfu_of(run)[0].verdict  # sampled only during start-up


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


@pytest.mark.parametrize(
    ("gpu", "name"),
    [
        ("NVIDIA GeForce GTX 1630", "NVIDIA GeForce GTX 1630"),  # not in the table
        ("RTX 5090 Laptop", "NVIDIA GeForce RTX 5090 Laptop GPU"),  # there without a peak
    ],
)
def test_a_card_without_a_peak(gpu: str, name: str) -> None:
    """The user is not asked for a card that the log names."""
    mfu, findings = mfu_of(nanogpt_run(step_ms=3909.8, mfu=0.1289, facts=WORK | {"gpu": gpu}))
    assert (mfu.card, mfu.card_name, mfu.card_tflops) == (None, name, None)
    assert (mfu.verdict, mfu.card_precision) == (None, None)
    assert set(findings) == {"card_without_peak", "mfu_smoothed"}


# --- names that several cards share ----------------------------------------------------------------------------------


def on_card(gpu: str, **facts: FactValue) -> Run:
    """A run that does 400 TFLOP/s."""
    work = {"tokens_per_iteration": 524_288, "flops_per_token": 400e12 / 524_288}
    return nanogpt_run(step_ms=1000.0, noise=0.0, mfu=None, facts={**work, "gpu": gpu, **facts})


def test_variants_with_one_peak_are_one_card() -> None:
    mfu, findings = mfu_of(nanogpt_run(step_ms=3909.8, noise=0.0, mfu=None, facts=WORK | {"gpu": "a100"}))
    assert (mfu.card_name, mfu.card_tflops, mfu.card_precision) == ("A100", 312.0, "bf16")
    assert mfu.card == pytest.approx(40.2 / 312, rel=0.01)
    assert (mfu.card_low, mfu.card_high) == (None, None)
    assert "utilisation_mostly_idle" in findings


def test_variants_with_other_peaks_give_a_range() -> None:
    mfu, findings = mfu_of(on_card("h100"))
    assert (mfu.card, mfu.card_name, mfu.card_tflops, mfu.card_precision) == (None, "H100", None, "bf16")
    assert mfu.card_low == pytest.approx(400 / 989.4)
    assert mfu.card_high == pytest.approx(400 / 756)
    assert mfu.verdict is None  # 40% and 53% lead to different verdicts
    assert set(findings) == {"card_variants"}
    numbers = findings["card_variants"].numbers
    assert (numbers["fast_card_name"], numbers["fast_tflops"]) == ("H100 SXM", 989.4)
    assert (numbers["slow_card_name"], numbers["slow_tflops"]) == ("NVIDIA H100 PCIe", 756)


def test_a_range_within_one_verdict_has_it() -> None:
    mfu, _ = mfu_of(nanogpt_run(step_ms=3909.8, noise=0.0, mfu=None, facts=WORK | {"gpu": "v100"}))
    assert (mfu.verdict, mfu.card_precision, mfu.card) == ("half_idle", "fp16", None)
    assert mfu.card_low == pytest.approx(40.2 / 125, rel=0.002)
    assert mfu.card_high == pytest.approx(40.2 / 112, rel=0.002)


@pytest.mark.parametrize(("gpu", "facts"), [("h100 94GB", {}), ("h100", {"gpu_memory_gb": 93.6})])
def test_memory_tells_variants_apart(gpu: str, facts: dict[str, FactValue]) -> None:
    mfu, findings = mfu_of(on_card(gpu, **facts))
    assert (mfu.card_name, mfu.card) == ("NVIDIA H100 NVL", pytest.approx(400 / 835.5))
    assert set(findings) == {"utilisation_good"}


def test_a_variant_that_cannot_have_done_it_is_none() -> None:
    """400 TFLOP/s is three times what the older of two cards with that name can do."""
    mfu, _ = mfu_of(on_card("RTX 6000"))
    assert mfu.card_name == "NVIDIA RTX 6000 Ada Generation"
    assert mfu.card == pytest.approx(400 / 364.2)


# --- the arithmetic of the peak --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gpu", "dtype", "tflops", "precision"),
    [
        ("T4", "bfloat16", 65, "fp16"),
        ("Tesla T4", "float16", 65, "fp16"),
        ("A100", "bfloat16", 312, "bf16"),
        ("A100", "float16", 312, "fp16"),
        ("GTX 1080 Ti", "float32", 11.3, "fp32"),
    ],
)
def test_no_card_has_a_peak_that_it_has_not(gpu: str, dtype: str, tflops: float, precision: str) -> None:
    facts = WORK | {"flops_per_token": 20e6, "gpu": gpu, "dtype": dtype}
    mfu, findings = mfu_of(nanogpt_run(step_ms=3909.8, noise=0.0, mfu=None, facts=facts))
    assert (mfu.card_tflops, mfu.card_precision) == (tflops, precision)
    assert "dtype_float32" not in findings


def test_float32_cannot_reach_the_peak_that_it_is_measured_by() -> None:
    facts = WORK | {"gpu": "A100", "dtype": "float32"}
    mfu, findings = mfu_of(nanogpt_run(step_ms=3909.8, noise=0.0, mfu=None, facts=facts))
    assert mfu.card_precision == "bf16"
    assert findings["dtype_float32"].numbers == {"card_tflops": 312.0, "card_precision": "bf16"}


# --- the printed figure ----------------------------------------------------------------------------------------------


def test_an_evaluation_every_20_rows() -> None:
    """The average never recovers: most printed values are below what a step reaches."""
    run = nanogpt_run(4000, log_interval=10, eval_interval=200, step_ms=200.0, noise=0.0, mfu=1.155)
    mfu, findings = mfu_of(run)
    assert mfu.steady_printed == pytest.approx(1.155, rel=0.001)
    assert (mfu.steady_basis, mfu.achieved_basis) == ("printed", "printed")
    assert {"mfu_over_100", "mfu_smoothed"} <= set(findings)


def test_slower_steps_are_not_called_steady() -> None:
    run = nanogpt_run(mfu=0.0019, step_ms=2000.0, pace=lambda iteration: 1 + 0.3 * iteration / 20_000)
    mfu, findings = mfu_of(run)
    assert mfu.steady_printed == pytest.approx(0.0019 / 1.15, rel=0.01)
    assert "mfu_smoothed" not in findings
    numbers = findings["mfu_smoothed_and_slower"].numbers
    assert numbers["first_ms"] == pytest.approx(2060, rel=0.01)
    assert numbers["last_ms"] == pytest.approx(2540, rel=0.01)
    assert numbers["change_share"] == pytest.approx(0.233, rel=0.05)


@pytest.mark.parametrize(
    "run",
    [
        nanogpt_run(pace=lambda iteration: 1 - 0.2 * iteration / 20_000),  # faster steps lower no figure
        nanogpt_run(600, log_interval=100, eval_interval=300, mfu=0.12),  # too few rows to say that nothing slowed down
    ],
)
def test_a_lower_figure_without_a_word_on_the_steps(run: Run) -> None:
    findings = mfu_of(run)[1]
    assert "mfu_smoothed_only" in findings
    assert not {"mfu_smoothed", "mfu_smoothed_and_slower"} & set(findings)


def test_the_printed_figure_against_flops() -> None:
    facts = WORK | {"gpu": "RTX 4070"}
    agreed, findings = mfu_of(nanogpt_run(step_ms=3909.8, noise=0.0, mfu=0.1289, facts=facts))
    assert (agreed.steady_basis, agreed.achieved_basis) == ("printed", "flops")
    assert "mfu_disagrees" not in findings
    mfu, findings = mfu_of(nanogpt_run(step_ms=3909.8, noise=0.0, mfu=0.2, facts=facts))
    numbers = findings["mfu_disagrees"].numbers
    assert numbers["steady_printed"] == pytest.approx(0.2, rel=0.001)
    assert numbers["computed_mfu"] == pytest.approx(0.1289, rel=0.002)
    assert mfu.achieved_tflops == pytest.approx(40.2, abs=0.1)
    assert "mfu_other_card" not in findings  # it would say the same thing twice


def test_flops_are_taken_where_the_print_is_too_coarse() -> None:
    """Two decimals of 0.02% say little."""
    facts = {"tokens_per_iteration": 16_384, "flops_per_token": 7.1e6}
    steady = 7.1e6 * 16_384 / 2.0 / 312e12
    mfu, _ = mfu_of(nanogpt_run(600, step_ms=2000.0, noise=0.0, mfu=steady, eval_interval=0, facts=facts))
    assert mfu.steady_printed == pytest.approx(steady, rel=1e-6)
    assert mfu.steady_basis == "flops"


def test_tokens_from_the_print_are_no_second_opinion() -> None:
    run = nanogpt_run(step_ms=3909.8, noise=0.0, mfu=0.2, facts=WORK)
    facts = {**run.facts, "tokens_per_iteration": Fact(524_288, "inferred", "mfu_time_parameters")}
    mfu, findings = mfu_of(replace(run, facts=facts))
    assert mfu.achieved_basis == "printed"
    assert "mfu_disagrees" not in findings


def test_more_than_all_and_nothing_at_all() -> None:
    assert "mfu_over_100" in mfu_of(nanogpt_run(mfu=1.63))[1]
    mfu, findings = mfu_of(nanogpt_run(mfu=0.00001))
    assert (mfu.printed_last, mfu.steady_printed) == (None, None)
    assert set(findings) == {"mfu_zero", "mfu_unknown"}
    assert findings["mfu_zero"].numbers["achieved_tflops"] is None


def test_more_than_all_of_a_card_that_has_no_more() -> None:
    facts = WORK | {"flops_per_token": 1.1 * 312e12 / 524_288, "gpu": "A100"}
    _, findings = mfu_of(nanogpt_run(step_ms=1000.0, noise=0.0, mfu=1.1, facts=facts))
    assert "mfu_over_100" not in findings  # the card's peak is the trainer's


@pytest.mark.parametrize(
    ("flops", "steady"),
    [(312e12 * 0.00003 / 524_288, 0.00003), (312e12 * 0.4 / 524_288, None)],  # the second contradicts what is printed
)
def test_a_printed_zero_is_known_by_flops_only_where_it_would_be_printed_so(flops: float, steady: float | None) -> None:
    facts = {"tokens_per_iteration": 524_288, "flops_per_token": flops}
    mfu, findings = mfu_of(nanogpt_run(step_ms=1000.0, noise=0.0, mfu=1e-9, facts=facts))
    assert mfu.printed_last is None
    assert mfu.steady_printed == (steady and pytest.approx(steady))
    assert "mfu_zero" in findings
    assert findings["mfu_unknown"].numbers["missing"] == "gpu"


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
