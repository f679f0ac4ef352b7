"""LLM.Q's console and its log in JSON."""

from __future__ import annotations

import math

import pytest

from nanopace.run import Checkpoint, Fact

from ...reading import read, read_one
from ..examples.gpt2 import LLMQ, LLMQ_JSON
from .reading import evaluation, values


def test_the_console() -> None:
    run = read_one(LLMQ)
    assert (run.format, run.trainer, run.row_contains_evaluation) == ("llmq", "LLM.Q", False)
    assert [(row.iteration, row.ms, row.loss) for row in run.rows] == [
        (0, 1869.0, 3.282568),
        (1, 1709.0, 3.310652),
        (2, 1708.0, 3.330125),
        (3, 134_000.0, 3.259991),
    ]
    assert all(math.isnan(mfu) for mfu in run.rows.mfu)  # its sol is none
    first = evaluation(run, 2)
    assert (first.train, first.train_steps, first.val, first.ms) == (3.29661, 2, 2.945187, 165.0)
    assert evaluation(run, 4).train_steps == 2
    assert run.checkpoints == (Checkpoint(2, "ckpt/run", ms=1250.0),)
    assert run.ending == "finished"
    assert values(run) == {
        "learning_rate": 1e-05,
        "batch_size": 8,
        "block_size": 1024,
        "tokens_per_iteration": 65536,
        "gpu_count": 1,
        "gradient_accumulation_steps": 8,
        "max_iters": 4,
        "eval_interval": 2,
        "gpu": "NVIDIA GeForce RTX 4090",
        "gpu_memory_gb": 23.52,
        "flops_per_token": pytest.approx(3_226_300_000.0),
        "flops_per_token_causal": pytest.approx(3_094_200_000.0),
        "log_interval": 1,
    }
    assert run.facts["tokens_per_iteration"].origin == "log"


def test_a_page_that_quotes_several_runs() -> None:
    row = "# [T] step     {} [  0.1%] | time: {:5d} ms | norm  14.196782 | loss  12.118944 | tps {} | sol 30.1%\n"
    page = "".join(row.format(n, 3558 - n, " 147k") for n in range(6)) + "```\n"
    page += "".join(row.format(n, 11063 - n, 524_288_000 // (11063 - n)) for n in range(4))
    first, second = read(page)
    assert (len(first.rows), len(second.rows)) == (6, 4)
    for run in (first, second):
        assert run.facts["tokens_per_iteration"] == Fact(524288, "inferred", "printed_rate")


def test_the_json() -> None:
    run = read_one(LLMQ_JSON)
    assert (run.format, run.trainer, run.row_contains_evaluation) == ("llmq_json", "LLM.Q", False)
    assert [(row.iteration, row.ms, row.loss) for row in run.rows] == [
        (0, 1869.0, 3.25),
        (1, 1709.0, 3.35),
        (2, 1708.0, math.inf),
    ]
    assert [(row.at_s or 0) - (run.rows[0].at_s or 0) for row in run.rows] == [0, 2, 5]
    (found,) = run.evaluations
    assert (found.iteration, found.train, found.train_steps, found.val, found.ms) == (2, 3.3, 2, 2.945187, 165.0)
    assert run.checkpoints == (Checkpoint(2, "ckpt/run", ms=1250.0),)
    assert values(run) == {
        "batch_size": 8,
        "block_size": 1024,
        "tokens_per_iteration": 131072,
        "gpu_count": 2,
        "gradient_accumulation_steps": 16,
        "dtype": "bfloat16",
        "gpu": "NVIDIA L40S",
        "gpu_memory_gb": 44.53,
        "flops_per_token": 3_226_300_000.0,
        "flops_per_token_causal": 3_094_200_000.0,
        "log_interval": 1,
    }


@pytest.mark.parametrize(
    "line",
    [
        '  {"log": "step", "time": "x", "step": 3, "duration_ms": 1e999, "loss": 3.0},',
        '  {"log": "step", "time": "x", "step": -3, "duration_ms": 1, "loss": 3.0},',
        '  {"log": "step", "time": 7, "step": null, "duration_ms": 1, "loss": 3.0},',
        '  {"log": "step", "time": "x", "step": 3, "duration_ms": [], "loss": 3.0},',
        '  {"log": "option", "time": "x", "step": 0, "name": "total-batch", "value": 1e400},',
        '  {"log": "eval", "time": "x"},',
        '  {"log": "eval", "time": "x", "step": 3, "duration_ms": -1, "loss": 3.0},',
        '  {"log": "info", "step": 3, "message": "saving checkpoint to `a`", "duration_ms": 1e999},',
        '  {"log": ' + "[" * 5000,
    ],
)
def test_lines_that_no_trainer_writes(line: str) -> None:
    run = read_one(LLMQ_JSON.replace("\n]\n", ",\n" + line + "\n]\n"))
    assert list(run.rows.iteration) == [0, 1, 2]
    assert (len(run.evaluations), len(run.checkpoints)) == (1, 1)
    assert run.value("tokens_per_iteration") == 131072
