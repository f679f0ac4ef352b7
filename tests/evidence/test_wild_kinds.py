"""Kinds of nanoGPT logs that people publish, each built here with the property that once misled the analyst."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from .conftest import Write
from .plan import Losses, Plan, Shape
from .truth import trained

Ask = Callable[..., Any]
Say = Callable[..., str]

SMALL = Shape(6, 6, 384, 256, 65, batch_size=64, accumulation=1)
FALLING = Losses(floor=1.4, scale=12.0, power=0.5, noise=0.004, row_noise=0.05)
PLAN = Plan(
    seed=7,
    shape=SMALL,
    losses=FALLING,
    max_iters=2000,
    log_interval=10,
    eval_interval=250,
    eval_iters=200,
    step_ms=40.0,
    noise=0.01,
)
BLAME = re.compile(r"clock with its temperature|its clock|throttl|nvidia-smi", re.IGNORECASE)


def codes(answer: Any) -> list[str]:
    return [finding["code"] for finding in answer["findings"]]


def test_a_fork_that_times_all_iterations_since_its_last_row(write: Write, ask: Ask, say: Say) -> None:
    """Perplexities between the two losses, an evaluation in every row, and row 0 faster than the others."""
    plan = replace(
        PLAN, fork="covers", header=False, mfu=False, max_iters=1000, log_interval=100, eval_interval=100,
        step_ms=160.0, eval_iters=5, compile_ms=500.0,
    )  # fmt: skip
    told = re.sub(r"train loss (\S+), val loss (\S+)", r"train loss \1 (PPL: 9.1, BPC: 3.2) | val loss \2 (PPL: 9.2)",
                  trained(plan).text)  # fmt: skip
    told = told.replace("iter 0:", "saving checkpoint to out\niter 0:", 1)  # as it does at every evaluation
    log = write(told.replace("saving checkpoint to", "saved best checkpoint to"), "fork.md")
    answer, text = ask("explain", log), say("explain", log)
    assert answer["evaluations"]["count"] == 10
    assert answer["loss"]["best_val"] is not None
    assert answer["step"]["median_ms"] == pytest.approx(160, rel=0.15)
    assert answer["wall"]["total_s"] == pytest.approx(1000 * 0.16, rel=0.15)
    assert "no row is slow" not in text
    assert "Nothing is worth changing" not in text


@pytest.mark.parametrize("change", [0.29, -0.2])
@pytest.mark.parametrize("noise", [0.01, 0.04])
def test_steps_that_become_slower_over_the_run(write: Write, ask: Ask, say: Say, change: float, noise: float) -> None:
    plan = replace(PLAN, drift=change, noise=noise, max_iters=1000)
    log = write(trained(plan))
    answer, text = ask("explain", log), say("explain", log)
    assert "did not slow down" not in text
    assert "throughout" not in text
    told = {*codes(answer)} & {"drift", "level_shift", "slower_at_the_end", "faster_at_the_end", "pace_changes"}
    assert told, "a change of a fifth and more is found"


def test_the_steady_mfu_of_a_tiny_model(write: Write, ask: Ask) -> None:
    """0.15% with two decimals, an evaluation every 20 rows: the printed value is coarse and never recovers."""
    plan = replace(PLAN, shape=replace(SMALL, batch_size=1), step_ms=75.0, eval_interval=200, max_iters=2000)
    truth = trained(plan)
    assert 0.0005 < truth.mfu_at(75.0) < 0.003
    assert ask("explain", write(truth))["mfu"]["steady_printed"] == pytest.approx(truth.mfu_at(75.0), rel=0.04)


def test_many_levels_and_a_restart_at_which_both_losses_jump(write: Write, ask: Ask, say: Say) -> None:
    shifts = tuple((0.1 * (k + 1), 1.15 if k % 2 else 0.88) for k in range(8))
    plan = replace(PLAN, shifts=shifts, max_iters=5000, eval_interval=50, noise=0.005, header=False,
                   losses=replace(FALLING, noise=0.012, power=0.3))  # fmt: skip
    lines = trained(plan).text.splitlines()
    half = next(k for k, line in enumerate(lines) if line.startswith("step 2500:"))

    def jumped(line: str) -> str:
        return re.sub(r"(loss )(\d+\.\d+)", lambda found: f"{found[1]}{float(found[2]) + 0.1:.4f}", line)

    log = write("\n".join([*lines[:half], *map(jumped, lines[half:])]) + "\n")
    answer, text = ask("explain", log), say("explain", log)
    assert "did not slow down" not in text
    assert len(answer["step"]["levels"]) >= 7
    assert "overfitting" not in codes(answer)


def test_a_gap_that_grows_while_validation_falls_is_no_over_fitting(write: Write, ask: Ask, say: Say) -> None:
    rows = []
    for k in range(11):
        train, val = 2.0 - 0.1 * k, 2.1 - 0.05 * k
        rows.append(f"step {250 * k}: train loss {train:.4f}, val loss {val:.4f}")
        rows += ["saving checkpoint to out"] * (k > 0)
        rows += [
            f"iter {250 * k + i}: loss {train:.4f}, time {40 + 800 * (i == 0)}.00ms, mfu 9.00%"
            for i in range(0, 250, 10)
        ]
    log = write("\n".join(rows) + "\n")
    assert ask("explain", log)["loss"]["last_val"] == pytest.approx(1.6)
    assert "overfitting" not in codes(ask("explain", log))
    assert "overfitting" not in say("explain", log)


def test_bits_per_character(write: Write, ask: Ask) -> None:
    log = write(trained(replace(PLAN, fork="bpc", header=False, max_iters=5000)))
    answer = ask("explain", log)
    assert answer["source"]["rows"] == 501
    assert answer["loss"]["metric"] == "bpc"
    assert answer["loss"]["best_val_perplexity"] is None
    assert answer["evaluations"]["count"] == 20


def test_the_best_so_far_decides_who_is_ahead(write: Write, ask: Ask, say: Say) -> None:
    """B falls below A for a while, then leaves its best far behind; A's best is the lower one."""

    def log(vals: list[float], ms: float) -> str:
        lines = []
        for k, val in enumerate(vals):
            lines.append(f"step {500 * k}: train loss {val:.4f} BPC, val loss {val:.4f} BPC")
            lines += [
                f"iter {500 * k + i}: loss {val:.4f} BPC, time {ms + 900 * (i == 0):.2f}ms, mfu 7.00%"
                for i in range(0, 500, 10)
            ]
        return "\n".join(lines) + "\n"

    falling = [6.2, 3.4, 2.9, 2.6, 2.45, 2.35, 2.28, 2.22, 2.17, 2.13, 2.1041]
    turning = [6.1, 3.2, 2.7, 2.4, 2.2, 2.1456, 2.6, 3.3, 4.1, 4.6, 4.92]
    a, b = write(log(falling, 50.0), "a.log"), write(log(turning, 50.0), "b.log")
    answer, text = ask("compare", a, b), say("compare", a, b)
    assert answer["leader_time"] == "a"
    assert not re.search(r"B overtakes it and stays ahead|b\.log overtakes it and stays ahead", text)
    assert not re.search(r"(?:B|b\.log) (?:stays|is) ahead", text)


def test_nan_is_told_as_nan_and_stamps_price_the_save(write: Write, ask: Ask, say: Say) -> None:
    """fp16 overflows: steps without an update are 7% faster, and timestamps separate evaluation and checkpoint."""
    lines, clock = [], 9 * 3600
    mfu = 15.34

    def stamp(seconds: float) -> str:
        nonlocal clock
        clock += seconds  # type: ignore[assignment]
        whole = int(clock)
        return f"2026-03-22 {whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}"

    for iteration in range(2800, 3210, 10):
        nan = iteration > 3000
        ms = 1017.0 if nan else 1098.0
        if iteration == 3000:
            lines.append(f"{stamp(9 * 1.098 + 26)} step 3000: train loss 4.0390, val loss 4.0427")
            lines.append("saving checkpoint to out")
            lines.append(f"{stamp(8 + 1.1)} iter 3000: loss 4.2490, time {26_000 + 8_000 + ms:.2f}ms, mfu {mfu:.2f}%")
        else:
            loss = "nan" if nan else f"{4.0 + 0.01 * (iteration % 7):.4f}"
            lines.append(f"{stamp(10 * ms / 1000)} iter {iteration}: loss {loss}, time {ms:.2f}ms, mfu {mfu:.2f}%")
    log = write("\n\n".join(lines) + "\n")
    answer, text = ask("explain", log), say("explain", log)
    assert "loss_diverged" in codes(answer)
    assert "level_shift" not in codes(answer)
    assert not BLAME.search(text)
    assert answer["evaluations"]["each_ms"] == pytest.approx(26_000, rel=0.06)
    assert answer["checkpoints"]["each_ms"] == pytest.approx(8_000, rel=0.2)
    assert [each["code"] for each in answer["findings"] if each["advice"]] in ([], ["calm_the_loss"], ["leave_float16"])
    assert "Nothing is worth changing" not in text


NOTEBOOK = (
    "/usr/lib/python3.12/site-packages/torch/_inductor/compile_fx.py:1: UserWarning: "
    "Tesla T4 does not support bfloat16 compilation natively, skipping\n  warnings.warn(\n"
)


@pytest.mark.parametrize("gpu", [(), ("--gpu", "T4")])
def test_a_card_without_bf16(write: Write, ask: Ask, say: Say, gpu: tuple[str, ...]) -> None:
    slow = replace(PLAN, max_iters=500, step_ms=20 * PLAN.step_ms)  # no faster than fp32, in which bf16 is emulated
    log = write(trained(slow).text.replace("step 0:", NOTEBOOK + "step 0:", 1), "cell.log")
    answer, said = ask("explain", log, *gpu), say("explain", log, *gpu)
    assert "T4" in str(answer["facts"]["gpu"]["value"])
    assert "float16" in " ".join(str(finding["numbers"]) + finding["code"] for finding in answer["findings"])
    assert "bf16 peak" not in said
    assert "The card is unknown" not in said


def test_smoothing_that_never_recovers_is_solved(write: Write, ask: Ask) -> None:
    """An evaluation every 20 rows, on a card of three times the assumed peak. Only rows before the first evaluation are
    free of one, and these are 2% slower: neither they nor the median of what is printed is the steady value."""
    shape = Shape(12, 12, 768, 1024, 50304, batch_size=64, accumulation=8)
    step_ms = shape.flops / (1.155 * 312e12) * 1000 / 0.98
    plan = replace(PLAN, shape=shape, step_ms=step_ms, noise=0.002, log_interval=1, eval_interval=20, max_iters=400,
                   eval_iters=20, header=False, shifts=((0.05, 0.98),))  # fmt: skip
    answer = ask("explain", write(trained(plan)))
    assert answer["mfu"]["steady_printed"] == pytest.approx(1.155, rel=0.004)


def test_row_0_bounds_the_checkpoint(write: Write, ask: Ask, say: Say) -> None:
    """Row 0 takes 69 s at 21 s per step; evaluation rows take 66 s more than a step, and always save."""
    lines = ["step 0: train loss 10.9000, val loss 10.9000", "iter 0: loss 10.9000, time 68900.00ms, mfu -100.00%"]
    for k in range(1, 61):
        if k % 10 == 0:
            lines += [f"step {k}: train loss {9 - k / 20:.4f}, val loss {9 - k / 20:.4f}", "saving checkpoint to out"]
        lines.append(
            f"iter {k}: loss {9 - k / 20:.4f}, time {21_000 + 15 * (k % 5) + 66_000 * (k % 10 == 0)}.00ms, mfu 30.00%"
        )
    log = write("\n".join(lines) + "\n")
    answer, text = ask("explain", log), say("explain", log)
    assert 17_500 <= answer["checkpoints"]["at_least_ms"] <= 18_500
    assert not re.search(r"(?<![\d.])0(?:\.0+)? ms", text)


def test_a_final_evaluation_is_counted(write: Write, ask: Ask) -> None:
    plan = replace(PLAN, cut="after evaluation", always_save=True)
    truth = trained(plan)
    assert truth.evaluations[-1].iteration > truth.rows[-1].iteration
    answer = ask("explain", write(truth))
    assert answer["evaluations"]["count"] == len(truth.counted) == 8
    assert answer["loss"]["last_val_iteration"] == truth.evaluations[-1].iteration
    assert answer["wall"]["total_s"] == pytest.approx(truth.total_s, rel=0.02)


def test_a_log_that_starts_late_is_out_of_every_sentence_about_time(write: Write, ask: Ask, say: Say) -> None:
    a, b = trained(PLAN), trained(replace(PLAN, seed=8, cut="head"))
    assert not b.begins
    logs = write(a, "whole.log"), write(b, "late.log")
    answer, text = ask("compare", *logs), say("compare", *logs)
    assert not {"compare_leads_time", "compare_crossover", "compare_sooner"} & {*codes(answer)}
    assert answer["leader_time"] is None
    assert not answer["equal_time"]
    assert "At equal time" not in text


def test_the_noise_of_few_evaluations_is_not_a_constant_of_ours(write: Write, ask: Ask, say: Say) -> None:
    few = replace(PLAN, eval_interval=500, losses=replace(FALLING, noise=0.002))
    logs = write(trained(few), "a.log"), write(trained(replace(few, seed=9)), "b.log")
    answer, text = ask("compare", *logs), say("compare", *logs)
    assert not [finding for finding in answer["findings"] if finding["numbers"].get("loss_error") is not None]
    assert not re.search(r"noise of the losses \(±|so much the evaluations scatter|±0\.0071", text)


def test_losses_on_two_datasets_are_not_ranked(write: Write, ask: Ask, say: Say) -> None:
    other = replace(PLAN, seed=10, dataset="web", losses=replace(FALLING, floor=3.0))
    logs = write(trained(PLAN), "a.log"), write(trained(other), "b.log")
    answer, text = ask("compare", *logs), say("compare", *logs)
    assert "compare_other_data" in codes(answer)
    assert not re.search(r"times sooner|x faster than|stays ahead|lower (?:best )?validation loss", text)


def test_bits_against_nats_are_not_ranked(write: Write, ask: Ask, say: Say) -> None:
    in_bits = replace(PLAN, seed=10, fork="bpc", header=False)
    logs = write(trained(replace(PLAN, header=False)), "a.log"), write(trained(in_bits), "b.log")
    answer, text = ask("compare", *logs), say("compare", *logs)
    assert not answer["equal_time"]
    assert not answer["equal_tokens"]
    assert answer["arrival"] is None
    assert not re.search(r"times sooner|x faster than|stays ahead|is ahead|lower (?:best )?validation loss", text)


def test_losses_on_unknown_data_say_so_first(write: Write, ask: Ask) -> None:
    plan = replace(PLAN, header=False)
    better = replace(plan, seed=10, losses=replace(FALLING, floor=1.0))
    found = codes(ask("compare", write(trained(plan), "a.log"), write(trained(better), "b.log")))
    ranking = [
        k for k, code in enumerate(found) if code.startswith(("compare_loss", "compare_leads", "compare_sooner"))
    ]
    assert "compare_data_unknown" in found
    assert not ranking or found.index("compare_data_unknown") < min(ranking)


def test_a_run_of_19_steps_is_not_told_to_evaluate_less(write: Write, ask: Ask) -> None:
    plan = replace(PLAN, max_iters=19, log_interval=1, eval_interval=2000, compile_ms=600.0)
    answer = ask("explain", write(trained(plan)))
    assert not {"raise_eval_interval", "lower_eval_iters", "lower_eval_iters_unknown", "turn_on_compile"} & {
        *codes(answer)
    }


def test_steps_of_seconds_are_in_seconds(write: Write, say: Say) -> None:
    text = say("explain", write(trained(replace(PLAN, step_ms=9349.8, noise=0.001))))
    assert "9.35 s" in text
    assert "9,349" not in text


def test_checkpoints_that_cluster_in_the_fast_half(write: Write, ask: Ask) -> None:
    """Steps change from 100 to 60 ms halfway; saves are in the first half: a save of 0.06 s is not called 0.26 s."""
    lines = []
    for k in range(0, 4001, 10):
        ms = 100.0 if k < 2000 else 60.0
        if k % 100 == 0:
            lines.append(f"step {k}: train loss {3 - k / 4000:.4f}, val loss {3 - min(k, 2000) / 4000 + k / 9e5:.4f}")
            lines += ["saving checkpoint to out"] * (0 < k <= 2000)
        cost = (5.0 * ms + (60.0 if 0 < k <= 2000 else 0.0)) if k % 100 == 0 else 0.0
        lines.append(f"iter {k}: loss 3.0000, time {ms + cost + 0.1 * (k % 7) + 3000 * (k == 0):.2f}ms, mfu 20.00%")
    answer = ask("explain", write("\n".join(lines) + "\n"))
    checkpoints = answer["checkpoints"]  # separated correctly or not at all
    assert checkpoints["basis"] != "measured" or checkpoints["each_ms"] == pytest.approx(60, abs=15)


@pytest.mark.parametrize("gpu", ["a100", "h100", "v100", "8xH100", "a100-40gb", "T4", "2x 4090"])
def test_cards_by_what_people_type(write: Write, ask: Ask, gpu: str) -> None:
    answer = ask("explain", write(trained(replace(PLAN, max_iters=300))), "--gpu", gpu)
    assert answer["mfu"]["card"] is not None or "card_variants" in codes(answer)
