"""slowrun's log: nanochat's rows without their total time, and evaluations of its own. Written by hand."""

from __future__ import annotations

import pytest

from nanopace import diagnose, render
from nanopace.sources.formats.table import NANOCHAT

from ..reading import detected, read, read_one

HEAD = """\
GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-01)
GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-02)
--- Hyperparameters ---
  n_layer=12, n_embd=768, n_head=6, head_dim=128
  seq_len=2048, window_pattern=SSSL
  total_batch_size=131072, device_batch_size=4
  weight_decay=1.6, adam_betas=(0.8, 0.95)
  dropout=0.1
-----------------------
Vocab size: 50,257
Parameters: 250,000,000 (transformer: 85,000,000, value_embeds: 110,000,000, lm_head: 27,500,000, other: 27,500,000)
FLOPs per token: 1.000000e+09
Batch size: 131,072 tokens, grad accum: 8 steps
Training for 2 epoch(s) (~8 steps estimated)
Step 00000 | Val BPB: 3.500000 | Val Loss: 10.800000
"""


def row(number: int, ms: float = 400.0, more: str = "") -> str:
    mfu = 100 * 1e9 * 131_072 / 2 / ms * 1000 / 989e12
    return (
        f"step {number:05d} ({12.5 * number:.2f}%) | loss: {8 - number / 2:.6f} | dt: {ms:.2f}ms "
        f"| tok/sec: {round(131_072_000 / ms):,} | bf16_mfu: {mfu:.2f}%{more}\n"
    )


ROWS = "".join(row(n) for n in range(1, 5)) + "Step 00004 | Epoch 1 | Val BPB: 1.400000 | Val Loss: 4.300000\n"
LATER = "".join(row(n, more=" | eta: 1.0m") for n in range(5, 9))
END = "Step 00008 | Epoch 2 | Val BPB: 1.300000 | Val Loss: 4.000000\nTotal training time: 0.10m\n"


def test_a_run() -> None:
    log = HEAD + ROWS + LATER + END
    run = read_one(log)
    assert detected(log.splitlines()) == NANOCHAT.name
    assert run.rows.iteration.tolist() == [*range(1, 9)]
    assert [(each.iteration, each.val, each.bits_per_byte) for each in run.evaluations] == [
        (0, 10.8, 3.5),
        (4, 4.3, 1.4),
        (8, 4.0, 1.3),
    ]
    assert run.ending == "finished"
    assert run.stage == "base"


def test_its_facts() -> None:
    run = read_one(HEAD + ROWS)
    known = {name: fact.value for name, fact in run.facts.items() if fact.origin == "log"}
    assert known == {
        "gpu": "NVIDIA H100 80GB HBM3",
        "gpu_count": 2,
        "tokens_per_iteration": 131_072,
        "gradient_accumulation_steps": 16,
        "batch_size": 4,
        "block_size": 2048,
        "n_layer": 12,
        "n_embd": 768,
        "n_head": 6,
        "weight_decay": 1.6,
        "dropout": 0.1,
        "vocab_size": 50_257,
        "parameters": 250_000_000,
        "flops_per_token": 1e9,
    }
    assert diagnose(run).mfu.steady_printed == pytest.approx(0.1656, abs=0.0002)
    assert "This trainer stops its clock for evaluations (2 here)" in render(diagnose(run))


def test_two_runs_in_a_file() -> None:
    first, second = read(HEAD + ROWS + LATER + END + HEAD.replace("=4\n", "=8\n") + ROWS)
    assert (first.number("batch_size"), second.number("batch_size")) == (4, 8)
    assert (len(first.rows), len(second.rows)) == (8, 4)


def test_rows_with_other_columns() -> None:
    run = read_one("".join(row(n, more=f" | iters: 2 | eta: {n}.0m") for n in range(1, 9)))
    assert len(run.rows) == 8


@pytest.mark.parametrize("width", [40, 61, 80])
def test_a_terminal_that_breaks_its_lines(width: int) -> None:
    broken = [line[at : at + width] for line in ROWS.splitlines() for at in range(0, len(line), width)]
    run = read_one("\n".join(broken))
    assert run.rows.iteration.tolist() == [1, 2, 3, 4]
