"""llm.c: the CUDA and the C program, train_gpt2.py, and main.log."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest

from nanopace import diagnose
from nanopace.run import Checkpoint, Fact, GpuUse
from nanopace.sources.formats.gpt2.llmc_lines import PYTHON_ROWS, ROWS, read_row

from ...reading import detected, read, read_one
from ..examples.gpt2 import LLMC, LLMC_LOG, LLMC_PYTHON
from .reading import caveats, losses, scores, values
from .test_rate import smoothed


def test_the_cuda_program() -> None:
    run = read_one(LLMC)
    assert (run.format, run.trainer, run.row_contains_evaluation) == ("llmc", "llm.c", False)
    assert [(row.iteration, row.ms, row.loss, row.mfu) for row in run.rows] == [
        (0, 4230.0, 11.009662, 0.319),
        (1, 2190.0, 10.956554, 0.616),
        (2, 2200.0, 10.848841, 0.613),
        (3, 2195.0, math.inf, 0.614),
    ]
    assert losses(run) == [(0, 11.007921, None), (2, 10.9, None), (4, 10.7, None)]
    assert scores(run) == [(2, 0.24995)]
    assert run.checkpoints == (Checkpoint(2, "log124M/model_00000002.bin"),)
    assert run.skipped == (1,)
    assert run.ending == "finished"
    assert caveats(run) == ["counts_from_one", "rate_smoothed", "mfu_causal"]
    assert values(run) == {
        "batch_size": 32,
        "block_size": 1024,
        "tokens_per_iteration": 524288,
        "learning_rate": 0.0006,
        "warmup_iters": 700,
        "eval_interval": 2,
        "gpu": "NVIDIA A100-SXM4-80GB",
        "printed_peak_tflops": 312.0,
        "dtype": "bfloat16",
        "vocab_size": 50257,
        "n_layer": 12,
        "n_head": 12,
        "n_embd": 768,
        "parameters": 123_689_472,  # without the positions
        "max_iters": 4,
        "gpu_count": 1,
        "gradient_accumulation_steps": 16,
        "log_interval": 1,
        "flops_per_token": 855_383_040,
        "flops_per_token_causal": 798_759_936.0,
    }
    assert run.gpu_use == GpuUse(
        samples=1, sm_mhz=1275.0, watts=389.0, celsius=61.0, utilization=98.9, throttled={"power_cap": 1.0}
    )


def test_its_mfu_is_no_contradiction() -> None:
    """It counts causal attention, and the report says so; nothing is wrong with the settings."""
    codes = {finding.code for finding in diagnose(read_one(LLMC)).findings}
    assert "mfu_causal" in codes
    assert "mfu_disagrees" not in codes


def test_a_wrong_number_of_gpus_still_is_one() -> None:
    log = LLMC.replace("| num_processes         | 1", "| num_processes         | 2")
    assert "mfu_disagrees" in {finding.code for finding in diagnose(read_one(log)).findings}


@pytest.mark.parametrize(
    ("line", "step", "mfu", "rate"),
    [
        ("step    7/60 | loss 4.250000 (-0.41z)| norm 0.8 (+1.20z)| lr 1.00e-04 | 80.50 ms | -100.0% bf16 MFU",
         7, None, ""),
        ("step    7/60 | loss 4.250000 (z +0.41)| norm 0.8 | lr 1.00e-04 | 80.50 ms | 41.5% bf16 MFU | 9 tok/s",
         7, 0.415, "9"),
        ("step    7/60 | train loss 4.250000 | norm 0.8 | lr 1.00e-04 | 80.50 ms | 41.5% A100 fp16 MFU | 9 tok/s",
         7, 0.415, "9"),
        ("step    7/60: train loss 4.250000 norm 0.8 lr 1.00e-04 (80.50 ms, 9 tok/s)", 7, None, "9"),
        ("step    7/60: train loss 4.250000 (acc 4.25) (80.50 ms, 9 tok/s)", 7, None, "9"),
        ("step 7/60: train loss 4.250000 (80.50 ms)", 7, None, ""),
        ("step 7: train loss 4.250000 (took 80.50 ms)", 7, None, ""),
    ],
)  # fmt: skip
def test_forms_of_a_row(line: str, step: int, mfu: float | None, rate: str) -> None:
    row = read_row(line, ROWS)
    assert row is not None
    assert (row.step, row.loss, row.ms, row.mfu, row.rate) == (step, 4.25, "80.50", mfu, rate)
    assert read_row(line, PYTHON_ROWS) is None
    assert detected([line]) == "llmc"


@pytest.mark.parametrize(
    "line",
    [
        "step    7/60 | train loss 4.250000 | norm 0.8000 | lr 1.00e-04 | (80.50 ms | 9 tok/s)",
        "iteration 7, loss: 4.25, time: 80.50ms, tok/s: 9.00, norm: 0.800",
        "iteration 7, loss: 4.25, time: 80.50ms",
    ],
)
def test_forms_of_a_row_of_train_gpt2_py(line: str) -> None:
    row = read_row(line, PYTHON_ROWS)
    assert row is not None
    assert (row.step, row.loss, row.ms) == (7, 4.25, "80.50")
    assert read_row(line, ROWS) is None
    assert detected([line]) == "llmc_python"


@pytest.mark.parametrize(
    "line",
    [
        "step  902/19560 | loss     nan (+nanz)|slurmstepd: error: *** JOB 1 CANCELLED ***",
        "step  100/19560 | loss     nan (+nanz)| norm    nan (+nanz)| lr 8.57e-05 | 3616.slurmstepd: error: *** JOB 1",
        "step 100: train loss 4.2000, val loss 4.3000",
    ],
)
def test_what_is_no_row(line: str) -> None:
    assert read_row(line, ROWS) is None
    assert detected([line]) not in ("llmc", "llmc_python")


def test_the_c_program_counts_from_0() -> None:
    run = read_one(
        "val loss 5.25\nstep 0: train loss 5.36 (took 1452.1 ms)\nstep 1: train loss 4.30 (took 1288.6 ms)\n"
    )
    assert list(run.rows.iteration) == [0, 1]
    assert losses(run) == [(0, 5.25, None)]
    assert caveats(run) == []


def test_in_may_2024_the_peak_was_an_a100s() -> None:
    run = read_one("step 1/9 | train loss 4.25 | norm 0.8 | lr 1.00e-04 | 80.50 ms | 41.5% A100 fp16 MFU | 9 tok/s\n")
    assert run.facts["printed_peak_tflops"] == Fact(312.0, "inferred", "trainer")


def test_a_resumed_run() -> None:
    """Its evaluation belongs to the next row, wherever that begins."""
    head, rest = LLMC.split("val loss 11.007921\n")
    head = head.replace("d12 ", "intermediate checkpoint ")
    row = "step  {0}/4 | loss 9.0 (+nanz)| norm 1.0 (+nanz)| lr 1.0e-06 | 2190.00 ms | 61.6% bf16 MFU | 12000 tok/s\n"
    first = LLMC[: LLMC.index("val loss 10.700000")]
    run = read_one(first + head + "val loss 10.9\n" + row.format(3) + row.format(4) + "val loss 10.6\n")
    assert list(run.rows.iteration) == [0, 1, 2, 3]
    assert [each.iteration for each in run.restarts] == [2]
    assert losses(run)[-2:] == [(2, 10.9, None), (4, 10.6, None)]
    assert rest


def test_a_log_that_ends_while_it_writes_and_another_process() -> None:
    cut = LLMC[: LLMC.index("val loss 1.000000")]
    first, second = read(cut + LLMC)
    assert (len(first.rows), len(second.rows)) == (2, 4)


def test_an_excerpt_knows_its_tokens() -> None:
    rows = smoothed([2391.52, 2397.11, 2650.4, 2396.87], 458_752, 700)
    line = "step {}/999 | loss 4.2 (+0.1z)| norm 0.8 (+0.1z)| lr 1.00e-04 | {} ms | -100.0% bf16 MFU | {} tok/s\n"
    run = read_one("".join(line.format(n + 1, ms, rate) for n, ms, rate in rows))
    assert run.facts["tokens_per_iteration"] == Fact(458_752, "inferred", "printed_rate")
    assert all(math.isnan(mfu) for mfu in run.rows.mfu)


def test_train_gpt2_py() -> None:
    run = read_one(LLMC_PYTHON)
    assert (run.format, run.trainer, run.row_contains_evaluation) == ("llmc_python", "llm.c", True)
    assert [(row.iteration, row.ms, row.loss) for row in run.rows] == [
        (0, 41230.5, 11.009662),
        (1, 1450.25, 10.956554),
        (2, 7450.5, 10.848841),
    ]
    assert losses(run) == [(0, 11.0079345703125, 0), (2, 10.84321, 2), (3, 10.62109375, None)]
    assert run.ending == "finished"
    assert caveats(run) == ["counts_from_one", "gpus_unknown"]
    assert (run.value("vocab_size"), run.value("block_size")) == (50257, 1024)
    assert run.value("tokens_per_iteration") == 524288


def test_main_log() -> None:
    run = read_one(LLMC_LOG)
    assert (run.format, len(run.rows)) == ("llmc_log", 0)
    assert [(row.iteration, row.loss) for row in run.untimed_rows] == [
        (0, 10.9819),
        (1, 10.8967),
        (2, 10.7363),
        (3, 10.5425),
    ]
    assert losses(run) == [(0, 10.9885, None), (2, 10.8012, None), (4, 10.4011, None)]
    assert scores(run) == [(2, 0.248)]


def test_a_terminal_that_broke_the_rows() -> None:
    broken = "\n".join(line[at : at + 60] for line in LLMC.splitlines() for at in range(0, max(1, len(line)), 60))
    run = read_one(broken[: broken.index("generating:")] + "\n")
    assert [(row.iteration, row.ms) for row in run.rows] == [(0, 4230.0), (1, 2190.0)]


def test_a_finished_training_has_nothing_to_go() -> None:
    assert all(b > a for a, b in pairwise(read_one(LLMC).rows.iteration))
    assert diagnose(read_one(LLMC[: LLMC.index("val loss 10.700000")])).ahead.remaining_iterations == 0


@pytest.mark.parametrize(
    ("devices", "gpus"),
    [(["cuda"], 1), (["cuda:0"], None), (["cuda:1", "cuda:0", "cuda:2"], 3), ([], None)],
)
def test_every_rank_of_train_gpt2_py_prints_its_device(devices: list[str], gpus: int | None) -> None:
    run = read_one(
        LLMC_PYTHON.replace("using device: cuda:0\n", "".join(f"using device: {each}\n" for each in devices))
    )
    assert run.value("gpu_count") == gpus
    said = {finding.code for finding in diagnose(run).findings}
    assert ("gpus_unknown" in said) == (gpus is None)


def test_the_accumulation_is_that_of_all_processes() -> None:
    log = LLMC.replace("| num_processes         | 1", "| num_processes         | 2").replace("steps=16", "steps=8")
    run = read_one(log)
    assert (run.value("gradient_accumulation_steps"), run.value("gpu_count")) == (16, 2)
    assert not run.conflicts
