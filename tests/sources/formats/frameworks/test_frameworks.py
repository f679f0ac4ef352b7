"""What these readers make of a complete log, and of one that a terminal or a pipe has altered."""

from __future__ import annotations

import re

import pytest

from nanopace.diagnosis.diagnose import diagnose
from nanopace.run import Run

from ...reading import read_one
from ..examples.frameworks import EXAMPLES

# By format: rows, first and last iteration, the time of a normal row and of the first one, evaluations with their time,
# checkpoints with theirs, ending, some facts, and what the user is told about the figures.
READ = {
    "torchtitan": (
        *(5, 1, 40, 500.0, 19980.0),
        *([(20, 9.5, 2000.0)], [(20, 3000.0)], "finished"),
        {"tokens_per_iteration": 32768, "gpu_count": 8, "parameters": 8030261248, "printed_peak_tflops": 989.0},
        {"rate_per_gpu": {"per_gpu": 8192, "gpus": 8, "total": 65536}},
    ),
    "megatron": (
        *(10, 10, 100, 1000.0, 1000.0),
        *([(50, 7.25, 10000.0)], [(50, 5000.0)], "finished"),
        {"tokens_per_iteration": 131072, "gpu_count": 16, "vocab_size": 50304, "dtype": "bfloat16", "max_iters": 100},
        {},
    ),
    "megatron-2021": (
        *(10, 10, 100, 1000.0, 1000.0),
        *([(50, 7.25, None)], [(50, None)], "finished"),
        {"flops_per_token": 200e12 * 16 / 131072, "block_size": 2048, "log_interval": 10},
        {},
    ),
    "litgpt": (
        *(40, 1, 40, 120.0, 100.0),
        *([(20, 8.125, 1500.0), (40, 7.0, None)], [(40, None)], "finished"),
        {"tokens_per_iteration": 4096, "gpu_count": 2, "parameters": 1100048384},
        {
            "rate_wrong": {"printed": 12.34, "tokens": 163840, "training_s": 6.4, "rate": 25600},
            "iterations_are_micro_batches": {"per_step": 2},
        },
    ),
    "lit-gpt": (
        *(40, 0, 39, 200.0, 200.0),
        *([(19, 9.0625, 3000.0)], [], None),
        {},
        {"iterations_are_micro_batches": {"per_step": 4}},
    ),
    "lingua": (
        *(40, 1, 40, 900.0, 40000.0),
        *([], [], None),
        {"parameters": 1809946624, "gpu": "NVIDIA A100-SXM4-80GB"},
        {"rate_per_gpu": {"per_gpu": 18200, "gpus": None, "total": None}},
    ),
    "lingua-metrics": (
        *(10, 10, 100, 900.0, 860.0),
        *([], [], None),
        {"tokens_per_iteration": 131072, "gpu_count": 8, "flops_per_token": 1e10},
        {"rate_per_gpu": {"per_gpu": 18204, "gpus": 8, "total": 145636}},
    ),
    "autoresearch": (
        *(40, 0, 39, 311.0, 310.0),
        *([(40, 0.9979, None)], [], "finished"),
        {"tokens_per_iteration": 524288, "printed_peak_tflops": 989.5, "parameters": 50332176, "n_layer": 8},
        {},
    ),
}


@pytest.mark.parametrize("name", READ)
def test_a_whole_log(name: str) -> None:
    rows, first, last, normal_ms, first_ms, evaluations, checkpoints, ending, facts, told = READ[name]
    run = read_one(EXAMPLES[name])
    assert (run.format, len(run.rows)) == (name, rows)
    assert (run.rows[0].iteration, run.rows[-1].iteration) == (first, last)
    assert diagnose(run).step.median_ms == pytest.approx(normal_ms, rel=1e-3)
    assert run.rows[0].ms == pytest.approx(first_ms, rel=1e-3)
    assert [(each.iteration, each.val, each.ms and round(each.ms)) for each in run.evaluations] == evaluations
    assert [(each.iteration, each.ms) for each in run.checkpoints] == checkpoints
    assert run.ending == ending
    assert {fact: run.value(fact) for fact in facts} == pytest.approx(facts)
    assert {each.code: dict(each.numbers) for each in run.caveats} == told


def same(run: Run) -> object:
    """What debris must not change."""
    return list(run.rows), run.evaluations, run.checkpoints, dict(run.facts), run.caveats, run.ending


@pytest.mark.parametrize("name", sorted(READ.keys() - {"lingua-metrics"}))
@pytest.mark.parametrize("width", [80, 97, 132])
def test_rows_that_a_terminal_broke(name: str, width: int) -> None:
    plain = re.sub(r"\x1b\[\d+m", "", EXAMPLES[name]).replace("\r", "\n")
    rows = re.compile(r"(?<!validate )\bstep:? +\d+ |\biteration +\d+/|\biter \d+ (?:\| )?step")
    lines = [line for line in plain.splitlines() if line.strip()]
    broken: list[str] = []
    for line in lines:
        piece = width if rows.search(line) else len(line)
        broken += (line[at : at + piece] for at in range(0, len(line), piece))
    assert same(read_one("\n".join(broken) + "\n")) == same(read_one(plain))


@pytest.mark.parametrize("name", READ)
def test_lines_twice_and_a_cut_end(name: str) -> None:
    whole = read_one(EXAMPLES[name])
    lines = [line for line in EXAMPLES[name].replace("\r", "\n").splitlines() if line]
    if name not in ("lingua", "autoresearch"):  # two ranks, and a summary, would change
        assert list(read_one("\n".join(f"{line}\n{line}" for line in lines) + "\n").rows) == list(whole.rows)
    at = max(index for index, line in enumerate(lines) if re.search(r"step|iter", line))
    kept = lines[:at]
    for cut in range(len(lines[at])):  # never a row with a truncated figure
        rows = list(read_one("\n".join([*kept, lines[at][:cut]])).rows)
        assert rows == list(whole.rows)[: len(rows)]


@pytest.mark.parametrize("name", READ)
def test_how_a_run_died(name: str) -> None:
    lines = [line for line in EXAMPLES[name].replace("\r", "\n").splitlines() if line]
    rows = [line for line in lines if re.search(r"step.*loss|iteration +\d+/.*loss|iter \d", line)]
    if name == "lingua-metrics":
        return  # it has no other lines
    dead = "\n".join([*rows, "Traceback (most recent call last):", "torch.OutOfMemoryError: CUDA out of memory."])
    assert read_one(f"{dead}\n").ending == "out_of_memory"
