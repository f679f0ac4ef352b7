"""Logs that are not nanoGPT's, or are incomplete: nanochat's stages and excerpts, and what cannot be read."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nanopace.cli.main import main

from .conftest import Write
from .test_wild_kinds import PLAN, codes
from .truth import trained

Ask = Callable[..., Any]
Say = Callable[..., str]


# --- nanochat --------------------------------------------------------------------------------------------------------


def nanochat(
    *,
    steps: int = 300,
    dt_ms: float = 500.0,
    gpus: int = 4,
    stage: str = "base",
    bits: float = 0.85,
    mfu: float = 48.0,
    batch: int = 524_288,
    card: str | None = None,
    header: bool = True,
    first: int = 0,
    columns: str = "mfu: {mfu:.2f}",
) -> Iterator[str]:
    """What one of nanochat's programs prints."""
    if header:
        yield "Autodetected device type: cuda"
        yield f"2026-01-23 16:43:25,103 - nanochat.common - INFO - Distributed world size: {gpus}"
        if card:
            yield f"GPU: {card} | Peak FLOPS (BF16): 1.00e+14"
        if stage == "base":
            yield "Vocab size: 65,536"
            yield "Estimated FLOPs per token: 3.491758e+09"
            yield f"Calculated number of iterations from target data:param ratio: {steps:,}"
        yield f"Tokens / micro-batch / rank: 32 x 2048 = {batch // gpus // 2:,}"
        yield f"Tokens / micro-batch: {batch // 2:,}"
        yield f"Total batch size {batch:,} => gradient accumulation steps: 2"
    for step in range(first, first + steps):
        if step % 100 == 0:
            yield f"Step {step:05d} | Validation bpb: {bits + 1 / (1 + step / 20):.4f}"
        ms = dt_ms * (1 + 0.002 * (step * 7 % 5 - 2)) + 18_000 * (step == 0 and header)
        of = f"/{first + steps:05d}" if stage == "base" else ""
        yield (
            f"step {step:05d}{of} ({100 * step / (first + steps):.2f}%) | loss: {2 + 9 / (1 + step / 30):.6f} | "
            f"lrm: 1.00 | dt: {ms:.2f}ms | tok/sec: {int(batch / ms * 1000):,} | {columns.format(mfu=mfu)} | "
            f"total time: {max(0, step - 10) * dt_ms / 60_000:.2f}m"
        )
    if header:
        model = f"{stage}_checkpoints/d20/model_{steps:06d}.pt"
        yield f"2026-01-23 17:00:00,103 - nanochat.checkpoint_manager - INFO - Saved model file to: /root/{model}"
        yield "Peak memory usage: 77144.52MiB"
        yield f"Total training time: {(steps - 10) * dt_ms / 60_000:.2f}m"
        yield f"Minimum validation bpb: {bits + 1 / (1 + steps // 100 * 5):.4f}"


def fine_tuning() -> Iterator[str]:
    yield "Autodetected device type: cuda"
    yield "Step 00000 | Validation loss: 1.010513"
    for step in range(100):
        yield f"Step {step:05d}/00100 | Training loss: 0.8{step:03d}| lrm: 0.9| num_tokens: 9,204"


def speedrun(gpus: int, dt_ms: float) -> str:
    base = nanochat(gpus=gpus, dt_ms=dt_ms)
    middle = nanochat(gpus=gpus, dt_ms=dt_ms, stage="mid", bits=0.40, steps=150)
    return "\n".join([*base, *middle, *fine_tuning()]) + "\n"


def test_the_stages_of_a_speedrun_are_compared_like_with_like(write: Write, ask: Ask, say: Say) -> None:
    a, b = write(speedrun(4, 945.0), "four.log"), write(speedrun(8, 480.0), "eight.log")
    runs = ask("explain", a)["runs"]
    assert [run["source"].get("stage") for run in runs][:2] == ["base", "mid"]
    answer, text = ask("compare", a, b), say("compare", a, b)
    pair = answer["stages"][0]
    assert pair["stage"] == "base"
    assert pair["tokens_per_s"]["ratio"] == pytest.approx(945 / 480, rel=0.01)
    assert not re.search(r"0\.39\d+ against 1\.\d+|0\.8\d+ against 0\.4\d+", text)
    assert not re.search(r"(?<![\d.])0 ms|x0\.00", text)
    assert "cannot be told apart without --gpu" not in text


def test_the_number_of_gpus_is_a_term_of_its_own(write: Write, ask: Ask) -> None:
    logs = [
        write("\n".join(nanochat(gpus=gpus, dt_ms=ms)) + "\n", f"{gpus}.log") for gpus, ms in ((4, 945.0), (8, 480.0))
    ]
    parts = ask("compare", *logs)["decomposition"]
    assert parts["gpu_count"] == pytest.approx(0.6931, abs=0.001)
    assert parts["utilisation"] == pytest.approx(-0.0157, abs=0.003)  # 488 and 481 TFLOP/s of each
    assert parts["total"] == pytest.approx(sum(value or 0 for name, value in parts.items() if name != "total"))


def test_the_card_that_the_log_names(write: Write, ask: Ask, say: Say) -> None:
    log = write("\n".join(nanochat(card="NVIDIA GeForce GTX 1660 SUPER", gpus=1, batch=2048, mfu=0.97)) + "\n")
    assert ask("explain", log)["facts"]["gpu"]["value"] == "NVIDIA GeForce GTX 1660 SUPER"
    text = say("explain", log)
    assert "The card is unknown" not in text
    assert "bf16 peak" not in text


def test_an_excerpt_of_nanochat(write: Write, ask: Ask, say: Say) -> None:
    """tok/sec x dt gives a step's tokens; mfu 0.00 is not a measurement; there is no start-up here."""
    columns = "bf16_mfu: {mfu:.2f} | epoch: 1 pq: 0 rg: 0"
    rows = nanochat(header=False, first=800, batch=65_536, dt_ms=1180.0, mfu=0.0, columns=columns)
    log = write("\n".join(rows) + "\n")
    answer, text = ask("explain", log), say("explain", log)
    assert answer["throughput"]["tokens_per_iteration"] == pytest.approx(65_536, rel=0.001)
    assert answer["throughput"]["tokens_per_s"] == pytest.approx(65_536 / 1.18, rel=0.005)
    assert answer["startup"] is None
    assert answer["wall"]["startup_s"] == 0
    assert "start-up" not in text
    assert "0.00%" not in text
    assert sum(loss is not None for loss in answer["curves"]["row_loss"]) >= 250


# --- what cannot be read ---------------------------------------------------------------------------------------------

ROWS = {
    "build-nanogpt": "step {k:5d} | loss: 6.123456 | lr 8.3e-07 | norm: 15.1 | dt: 350.12ms | tok/sec: 1497444.5",
    "build-nanogpt, other columns": "step {k}, loss: 5.8712, dt: 510.75 ms, tok/sec: 8020.1",
    "modded-nanogpt": "step:{k}/3000 train_loss:4.1234 train_time:{k}150ms step_avg:150.00ms",
    "torchtitan": "[rank0]:[titan] 2026-01-05 10:00:{k:02} - root - INFO - step: {k:2}  loss:  7.12345  "
    "grad_norm:  1.2000  memory: 40.12GiB(50.00%)  tps: 8,123  tflops: 300.10  mfu: 30.01%",
    "Megatron": " iteration {k}/ 1000 | consumed samples: {k}024 | elapsed time per iteration (ms): 12553.8 | "
    "global batch size: 1024 | lm loss: 1.24E+01 |",
    "Hugging Face": "{{'loss': 2.92, 'grad_norm': 1.1, 'learning_rate': 4.9e-05, 'epoch': 0.{k:02}}}",
    "LLaMA-Factory": '{{"current_steps": {k}0, "total_steps": 400, "loss": 3.1, "epoch": 0.02, '
    '"elapsed_time": "0:01:{k:02}"}}',
    "llama2.c": "{k}0 | loss 2.3582 | lr 5.00e-04 | 60.64ms",
    "litgpt": "Epoch 1 | iter {k} step {k} | loss train: 3.100, val: n/a | iter time: 512.12 ms (step) "
    "remaining time: 0:10:00",
    "Lightning": "0,{k},3.{k},",
}
HEADS = {
    "build-nanogpt": "total desired batch size: 524288\n=> calculated gradient accumulation steps: 8\n"
    "validation loss: 10.9517\n",
    "modded-nanogpt": "import torch\nfor step in range(10):\n    print(step)\n",
    "llama2.c": "step 0: train loss 4.9303, val loss 4.9313\n",
    "Lightning": "epoch,step,train_loss,val_loss\n",
}


@pytest.mark.parametrize("trainer", ROWS)
def test_a_refusal_says_what_was_seen(write: Write, trainer: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A complete log is not called a beginning; if its format can be read by now, it is read."""
    rows = [ROWS[trainer].format(k=k) for k in range(41)]
    log = write(HEADS.get(trainer, "") + "\n".join(rows) + "\n", "foreign.log")
    refused = main(["explain", str(log), "--lang", "en"]) != 0
    out, err = capsys.readouterr()
    if refused:
        assert len(err.strip().splitlines()) == 1
        assert "start of a training log" not in err
        named = trainer.split(",")[0].lower() in err.lower()
        quoted = re.search(r"line \d+", err) is not None
        assert named or quoted, err
    else:
        said = " ".join(out.split())
        assert "A normal step takes" in said or "no step times" in said


def test_a_truncated_archive_is_read_as_far_as_it_goes(tmp_path: Path, say: Say, ask: Ask) -> None:
    whole = gzip.compress(trained(PLAN).text.encode())
    log = tmp_path / "train.log.gz"
    log.write_bytes(whole[: len(whole) * 2 // 3])
    rows = ask("explain", log)["source"]["rows"]
    assert 60 <= rows <= 200
    assert "truncated" in say("explain", log)


def test_prose_that_quotes_a_log_is_not_taken_for_a_run_without_a_word(write: Write, ask: Ask) -> None:
    prose = "\n".join(f"Words about training, and why it is worth it, number {k}." for k in range(60))
    quoted = "\n".join(trained(replace(PLAN, header=False, max_iters=100)).text.splitlines()[:12])
    log = write(f"# A trainer\n\n{prose}\n\n```\n{quoted}\n```\n\n{prose}\n", "README.md")
    assert "quoted_log" in codes(ask("explain", log))


def test_lines_that_look_like_evaluations_and_cannot_be_read_are_told(write: Write, ask: Ask, say: Say) -> None:
    text = trained(replace(PLAN, header=False)).text
    log = write(re.sub(r"train loss (\S+), val loss (\S+)", r"mean loss \1 and \2", text))
    answer = ask("explain", log)
    if answer["evaluations"]["count"] == 0:
        assert "unread_evaluations" in codes(answer)
        assert "no row is slow" not in say("explain", log)


def test_a_directory_with_a_log_whose_first_row_lies_far_behind(tmp_path: Path, ask: Ask) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "near.log").write_text(trained(PLAN).text)
    noise = "".join(
        f"WARNING: package {k} is deprecated and will be removed some day, see its notes\n" for k in range(5000)
    )
    assert len(noise) > 300_000
    (folder / "far.log").write_text(noise + trained(replace(PLAN, seed=8)).text)
    assert sorted(run["source"]["name"] for run in ask("explain", folder)["runs"]) == ["far.log", "near.log"]
