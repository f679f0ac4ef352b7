"""llama2.c: nanoGPT's loop with other rows."""

from __future__ import annotations

import pytest

from nanopace.hardware.flops import flops_per_token

from ...reading import detected, read_one
from ..examples.gpt2 import LLAMA2C
from .reading import losses, values


def test_a_log() -> None:
    run = read_one(LLAMA2C)
    assert (run.format, run.trainer, run.row_loss, run.mfu_smoothing) == ("llama2c", "llama2.c", "micro-batch", 0.9)
    assert [(row.iteration, row.ms, row.loss, row.mfu) for row in run.rows] == [
        (0, 14404.98, 10.4137, None),
        (5, 612.2, 10.205, None),
        (10, 9220.75, 9.905, pytest.approx(0.0054)),
        (15, 612.9, 9.715, pytest.approx(0.0129)),
        (20, 613.1, 9.525, pytest.approx(0.0197)),
    ]
    assert losses(run) == [(0, 10.4171, 0), (10, 9.92, 2)]
    assert [(each.iteration, each.path, each.row) for each in run.checkpoints] == [(10, "out", 2)]
    assert run.ending == "finished"
    assert values(run) == {
        "n_embd": 288,
        "n_layer": 6,
        "max_iters": 20,
        "tokens_per_iteration": 131072,
        "gradient_accumulation_steps": 4,
        "gpu_count": 1,
        "batch_size": 128,
        "block_size": 256,
        "compile": True,
        "parameters": 15_191_712,
        "flops_per_token": flops_per_token(15_191_712, 6, 288, 256),
        "log_interval": 5,
        "eval_interval": 10,
        "printed_peak_tflops": 312.0,
    }


def test_of_several_processes_it_prints_the_accumulation_of_one() -> None:
    run = read_one(LLAMA2C.replace("4 grad accum steps * 1 processes", "1 grad accum steps * 4 processes"))
    assert (run.value("gradient_accumulation_steps"), run.value("gpu_count")) == (4, 4)


def test_a_fork_with_other_words() -> None:
    run = read_one(
        "Tokens per iteration: 32,768\nMax iterations: 1,000\nTotal optimizable parameters: 917,504\n"
        "step 0: train loss 4.9303, val loss 4.9313\nNew best val loss: 4.9313\nSaving checkpoint to out/ckpt.pt\n"
        "0 | loss 4.9301 | lr 5.00e-04 | 7733.16ms\n10 | loss 3.9257 | lr 5.00e-04 | 60.64ms\n"
        "Training finished. Best validation loss: 4.9313\n"
    )
    assert [(row.iteration, row.ms) for row in run.rows] == [(0, 7733.16), (10, 60.64)]
    assert [(each.iteration, each.path, each.row) for each in run.checkpoints] == [(0, "out/ckpt.pt", 0)]
    assert (run.value("tokens_per_iteration"), run.value("parameters")) == (32768, 917504)
    assert run.ending == "finished"


def test_a_restart() -> None:
    row = "{} | loss 9.0000 | lr 1.000000e-05 | 612.00ms | mfu {}%\n"
    run = read_one("".join(row.format(n, m) for n, m in [(5, "2.00"), (6, "2.00"), (7, "-100.00"), (8, "-100.00")]))
    assert [each.row for each in run.restarts] == [2]


@pytest.mark.parametrize(
    "line",
    [
        "iter 100 | loss 2.3582 | lr 5.0e-04 | 728.63ms",
        "| 100 | loss 2.3582 |",
        "100 | loss 2.3582 | lr 5.0e-04 | 728.6",
    ],
)
def test_what_is_no_row(line: str) -> None:
    assert detected([line]) != "llama2c" or line.startswith("iter")
