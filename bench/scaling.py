"""From one process to several: what each one holds and sends, predicted and measured on this machine.

python bench/scaling.py              # the predicted tables, then 1, 2 and 4 processes on this CPU (about 3 minutes)
python bench/scaling.py --predict    # only the predicted tables
python bench/scaling.py --cards      # GPT-2 on this machine's cards: one, then all of them with ddp and fsdp

It counts bytes on the loopback device, so let nothing else use that meanwhile.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from nanogpt import write_tokens, zipf_tokens
from nanopace import open_run
from nanopace.hardware.flops import parameters
from nanopace.hardware.scaling import model_bytes, traffic_bytes

MODELS = {"GPT-2": (12, 768), "medium": (24, 1024), "large": (36, 1280), "XL": (48, 1600)}
LINKS = {"PCIe 4": 20e9, "100 Gb/s": 11e9, "NVLink 4": 400e9}  # bytes per second that one card can really send
SMALL = {"n_layer": 4, "n_head": 4, "n_embd": 128, "block_size": 128, "batch_size": 4, "gradient_accumulation_steps": 8}
SHORT, LONG = 10, 40  # steps: the difference is nothing but steps


@dataclass(frozen=True)
class Measured:
    tokens_per_s: float
    loss: float
    sent: float  # bytes per step and rank
    held: int  # bytes of weights and averages on one rank


def main() -> None:
    if "--cards" in sys.argv[1:]:
        measure_cards()
        return
    predict()
    if "--predict" not in sys.argv[1:]:
        measure()


def predict() -> None:
    print(f"| model | cards | | weights, gradients, averages per card | sent per step | {' | '.join(LINKS)} |")
    print("|---|---|---|---|---|" + "---|" * len(LINKS))
    for name, (n_layer, n_embd) in MODELS.items():
        count = parameters(n_layer, n_embd, 50304, 1024, False)
        for cards, parallel in ((1, "ddp"), (2, "ddp"), (8, "ddp"), (2, "fsdp"), (8, "fsdp")):
            micro_batches = 64 // cards
            held = model_bytes(count, cards, parallel, micro_batches)
            sent = traffic_bytes(count, cards, parallel, micro_batches)
            times = " | ".join(f"{sent / speed:.2f} s" for speed in LINKS.values())
            print(f"| {name} | {cards} | {parallel} | {held / 2**30:.1f} GiB | {sent / 1e9:.1f} GB | {times} |")


def measure() -> None:
    with tempfile.TemporaryDirectory() as folder:
        room = Path(folder)
        tokens = zipf_tokens(500_000, 2048, 1)
        write_tokens(room / "data", tokens, tokens[:50_000], 2048)
        count = parameters(4, 128, 2048, 128, False)
        alone = run(room, 1, "ddp")
        print(f"\nthis CPU, {count:,} weights, {8 * 4 * 128:,} tokens per step; predictions in brackets")
        print("| processes | | tokens/s | vs. one | final loss | sent per step | weights and averages per process |")
        print("|---|---|---|---|---|---|---|")
        for ranks, parallel in ((1, "ddp"), (2, "ddp"), (4, "ddp"), (2, "fsdp"), (4, "fsdp")):
            found = alone if ranks == 1 else run(room, ranks, parallel)
            sent = traffic_bytes(count, ranks, parallel, 8 // ranks, weight_bytes=4)  # a CPU computes in float32
            held = 12 * count // (ranks if parallel == "fsdp" else 1)
            print(
                f"| {ranks} | {parallel} | {found.tokens_per_s:,.0f} | {found.tokens_per_s / alone.tokens_per_s:.2f} | "
                f"{found.loss:.4f} | {found.sent / 1e6:.1f} MB ({sent / 1e6:.1f}) | "
                f"{found.held / 1e6:.1f} MB ({held / 1e6:.1f}) |",
                flush=True,
            )


def run(room: Path, ranks: int, parallel: str) -> Measured:
    """Make two runs of different length: their difference is nothing but steps."""
    sent = []
    for steps in (SHORT, LONG):
        out_dir = room / f"{parallel}-{ranks}-{steps}"
        before = loopback_bytes()
        train(room, out_dir, ranks, parallel, steps)
        sent.append(loopback_bytes() - before)
    rows = open_run(out_dir).rows
    parts = (out_dir / "checkpoints" / f"step-{LONG + 1:08d}").glob("*.safetensors")
    sizes = [each.stat().st_size for each in parts]
    return Measured(
        tokens_per_s=8 * 4 * 128 / median(row.ms for row in rows[5:]) * 1000,
        loss=rows[-1].loss,
        sent=(sent[1] - sent[0]) / (LONG - SHORT) / ranks,
        held=max(sizes) if parallel == "fsdp" else sum(sizes),
    )


def train(room: Path, out_dir: Path, ranks: int, parallel: str, steps: int) -> None:
    where = {"device": "cpu", "compile": False, "dataset": str(room / "data"), "out_dir": str(out_dir)}
    how = {"max_iters": steps, "eval_interval": 1000, "eval_iters": 1, "parallel": parallel, "log_interval": 100}
    rate = {"warmup_iters": 5, "lr_decay_iters": LONG, "learning_rate": 1e-3, "min_lr": 1e-4, "dropout": 0.0}
    start({**SMALL, **where, **how, **rate}, 0 if ranks == 1 else ranks)


def measure_cards() -> None:
    """524,288 tokens per step. With one card, it shows what FSDP costs when there is nothing to share."""
    import torch

    cards = torch.cuda.device_count()
    gpt2 = {"n_layer": 12, "n_head": 12, "n_embd": 768, "block_size": 1024, "batch_size": 16, "vocab_size": 50304}
    gpt2["dropout"] = 0.0
    with tempfile.TemporaryDirectory() as folder:
        room = Path(folder)
        tokens = zipf_tokens(30_000_000, 50257, 1)
        write_tokens(room / "data", tokens, tokens[:2_000_000], 50257)
        print(f"{cards} x {torch.cuda.get_device_name(0)}, GPT-2, 524,288 tokens per step")
        print("| cards | | tokens/s | vs. one |\n|---|---|---|---|")
        alone = 0.0
        for number, parallel in dict.fromkeys([(0, "one"), (cards, "ddp"), (cards, "fsdp")]):
            out_dir = room / parallel
            where = {"dataset": str(room / "data"), "out_dir": str(out_dir), "gradient_accumulation_steps": 32}
            how = {"max_iters": 25, "eval_interval": 1000, "eval_iters": 1, "log_interval": 100, "warmup_iters": 5}
            knobs = {**gpt2, **where, **how, "parallel": "ddp" if parallel == "one" else parallel}
            start(knobs, number)
            speed = 524_288 / median(row.ms for row in open_run(out_dir).rows[5:]) * 1000
            alone = alone or speed
            print(f"| {number or 1} | {parallel} | {speed:,.0f} | {speed / alone:.3f} |", flush=True)


def start(knobs: dict[str, object], processes: int) -> None:
    flags = [f"--{name}={value}" for name, value in knobs.items()]
    several = [f"--gpus={processes}"] if processes else []
    words = [sys.executable, "-m", "nanopace", "train", "--no-report", *several, *flags]
    one_thread_each = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, env=one_thread_each)


def loopback_bytes() -> int:
    for line in Path("/proc/net/dev").read_text(encoding="ascii").splitlines():
        name, _, figures = line.partition(":")
        if name.strip() == "lo":
            return int(figures.split()[8])
    raise SystemExit("this machine has no loopback device")


if __name__ == "__main__":
    main()
