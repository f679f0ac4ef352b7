"""Tokens per second compared with nanoGPT, one after the other: GPT-2 124M, bf16, on one CUDA card.

Both trainers run for a few steps as people start them, without evaluations. A step has 524,288 tokens, or an eighth of
that on cards of less than 200 TFLOP/s, so that it takes only minutes. Micro-batch 64 fills a large card; 8 fits in a
card of 12 GB.

    python bench/throughput.py path/to/nanoGPT                     # three minutes on an H200
    python bench/throughput.py path/to/nanoGPT --micro_batch 8     # what fits your card
    python bench/throughput.py path/to/nanoGPT --micro_batch 64 --ours "" --ours fp8=True --ours recipe=fast

The last one runs nanopace three times: as it is, with products in 8 bits, and with recipe fast. --ours fused=False runs
it with torch.compile.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from loss_clock import parse_setting
from nanogpt import Knobs, Result, run_nanogpt, run_nanopace, write_zipf_tokens
from nanopace.train.plan.device import Machine, find_machine

VOCAB, LENGTH = 50304, 1024
SKIP = 5  # steps until a card has settled
ROOM_FOR_64 = 40  # GB: nanoGPT takes 29 GiB


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nanogpt", type=Path)
    parser.add_argument("--micro_batch", type=int, action="append", help="repeatable (default: 64 and 8 if they fit)")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--step_tokens", type=int)
    parser.add_argument(
        "--ours", action="append", type=parse_setting, metavar="SETTING", help="knobs of a nanopace run; repeatable"
    )
    args = parser.parse_args()
    machine = find_machine("cuda")
    args.step_tokens = args.step_tokens or _step_tokens(machine)
    sizes = args.micro_batch or ([64, 8] if (machine.memory_gb or 0) > ROOM_FOR_64 else [8])
    with tempfile.TemporaryDirectory() as folder:
        room = Path(folder)
        data = write_zipf_tokens(room / "data", 12_000_000, 200_000, VOCAB)
        rows = [_compare(args, room, data, micro_batch) for micro_batch in sizes]
    print(f"\n{machine.name}, {args.step_tokens:,} tokens per step")
    print(f"{'micro-batch':>11}  {'trainer':24}{'ms/step':>9}{'tokens/s':>10}{'ratio':>7}")
    print("\n".join(line for row in rows for line in row))


def _step_tokens(machine: Machine) -> int:
    peak = machine.peak_flops("bfloat16")
    return 65_536 if peak is not None and peak < 200e12 else 524_288


def _compare(args: argparse.Namespace, room: Path, data: Path, micro_batch: int) -> list[str]:
    knobs: Knobs = {
        "dataset": str(data),
        "batch_size": micro_batch,
        "block_size": LENGTH,
        "gradient_accumulation_steps": args.step_tokens // LENGTH // micro_batch,
        "max_iters": args.steps,
        "eval_interval": 10 * args.steps,
        "eval_iters": 1,
        "device": "cuda",
        "dtype": "bfloat16",
        "compile": True,
    }
    theirs = run_nanogpt(args.nanogpt, {**knobs, "out_dir": str(room / "theirs")}, room / "nanogpt.log").step_ms(SKIP)
    lines = [_line(args.step_tokens, micro_batch, "nanoGPT", theirs, theirs)]
    print(lines[-1], flush=True)
    for number, setting in enumerate(args.ours or [{}]):
        out = room / f"ours{micro_batch}-{number}"
        ours: Result = run_nanopace(
            {**knobs, **setting, "out_dir": str(out), "save_interval": 10**6}, room / "ours.log"
        )
        name = ", ".join(["nanopace", *(f"{knob}={value}" for knob, value in setting.items())])
        lines.append(_line(args.step_tokens, micro_batch, name, ours.step_ms(SKIP), theirs))
        print(lines[-1], flush=True)
    return lines


def _line(tokens: int, micro_batch: int, name: str, ms: float, theirs: float) -> str:
    return f"{micro_batch:>11}  {name:24}{ms:9.1f}{tokens / ms:9.0f}k{theirs / ms:7.3f}"


if __name__ == "__main__":
    main()
