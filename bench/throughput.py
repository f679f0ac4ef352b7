"""Tokens per second beside nanoGPT, one after the other: GPT-2 124M, 524,288 tokens a step, bf16, on one CUDA card.

Both trainers as people start them, for a few steps, without evaluations. Micro-batch 64 fills a large card; 8 is what a
card of 12 GB takes.

    python bench/throughput.py path/to/nanoGPT                     # three minutes on an H200
    python bench/throughput.py path/to/nanoGPT --micro_batch 8     # what fits your card
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from nanogpt import Knobs, Result, run_nanogpt, run_nanopace, write_tokens, zipf_tokens

VOCAB, LENGTH, STEP_TOKENS = 50304, 1024, 524_288
SKIP = 5  # steps until a card has settled


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nanogpt", type=Path)
    parser.add_argument("--micro_batch", type=int, action="append", help="may be given several times; else 64 and 8")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--compiled", action="store_true", help="also ours with torch.compile")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        room = Path(folder)
        data = write_tokens(room / "data", zipf_tokens(12_000_000, VOCAB, 1), zipf_tokens(200_000, VOCAB, 2), VOCAB)
        rows = [_compare(args, room, data, micro_batch) for micro_batch in args.micro_batch or (64, 8)]
    print(f"\n{'micro-batch':>11}  {'trainer':24}{'ms/step':>9}{'tokens/s':>10}{'ratio':>7}")
    print("\n".join(line for row in rows for line in row))


def _compare(args: argparse.Namespace, room: Path, data: Path, micro_batch: int) -> list[str]:
    knobs: Knobs = {
        "dataset": str(data),
        "batch_size": micro_batch,
        "block_size": LENGTH,
        "gradient_accumulation_steps": STEP_TOKENS // LENGTH // micro_batch,
        "max_iters": args.steps,
        "eval_interval": 10 * args.steps,
        "eval_iters": 1,
        "device": "cuda",
        "dtype": "bfloat16",
        "compile": True,
    }
    ways: dict[str, Knobs] = {"nanopace": {}}
    if args.compiled:
        ways["nanopace, torch.compile"] = {"fused": False}
    theirs = run_nanogpt(args.nanogpt, {**knobs, "out_dir": str(room / "theirs")}, room / "nanogpt.log").step_ms(SKIP)
    lines = [_line(micro_batch, "nanoGPT", theirs, theirs)]
    for number, (name, how) in enumerate(ways.items()):
        out = room / f"ours{micro_batch}-{number}"
        ours: Result = run_nanopace({**knobs, **how, "out_dir": str(out), "save_interval": 10**6}, room / "ours.log")
        lines.append(_line(micro_batch, name, ours.step_ms(SKIP), theirs))
    print(lines[-1], flush=True)
    return lines


def _line(micro_batch: int, name: str, ms: float, theirs: float) -> str:
    return f"{micro_batch:>11}  {name:24}{ms:9.1f}{STEP_TOKENS / ms:9.0f}k{theirs / ms:7.3f}"


if __name__ == "__main__":
    main()
