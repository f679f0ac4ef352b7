"""GPT-2 124M on one CUDA card, compared with nanoGPT: tokens per second, and the cost of evaluations and checkpoints.

Both train 524,288 tokens per step, and evaluate 1.6M validation tokens and save a checkpoint every 20 steps. Their cost
gives their share of the wall clock at the usual interval of 250 steps.

    python bench/gpu_train.py path/to/nanoGPT            # about five minutes on an H200
    python bench/gpu_train.py path/to/nanoGPT --every 250 --steps 255    # ours really at that interval
    python bench/gpu_train.py path/to/nanoGPT --micro_batch 8
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import tempfile
from pathlib import Path
from statistics import median

from nanogpt import Knobs, Result, run_nanogpt, run_nanopace, write_zipf_tokens
from nanopace import diagnose, open_run

VOCAB = 50304
STEP_TOKENS = 524_288
EVERY = 20  # steps between evaluations here
USUAL = 250  # and for the printed share


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nanogpt", type=Path)
    parser.add_argument("--micro_batch", type=int, default=64)
    parser.add_argument("--every", type=int, default=EVERY, help="steps between nanopace's evaluations")
    parser.add_argument("--steps", type=int, default=2 * EVERY + 5, help="nanopace's steps")
    parser.add_argument("--keep", type=Path, help="copy the logs and the ledger here")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        room = Path(folder)
        data = write_zipf_tokens(room / "data", 60_000_000, 4_000_000, VOCAB)
        knobs: Knobs = {
            "dataset": str(data),
            "batch_size": args.micro_batch,
            "block_size": 1024,
            "gradient_accumulation_steps": STEP_TOKENS // 1024 // args.micro_batch,
            "n_layer": 12,
            "n_head": 12,
            "n_embd": 768,
            "max_iters": 2 * EVERY + 5,
            "lr_decay_iters": 2 * EVERY + 5,
            "warmup_iters": 10,
            "eval_interval": EVERY,
            "eval_iters": 1600 // args.micro_batch,
            "device": "cuda",
            "dtype": "bfloat16",
            "compile": True,
        }
        how: Knobs = {"eval_interval": args.every, "eval_train": "steps"}  # 1.6M tokens, no second pass
        ours: Knobs = {**knobs, **how, "out_dir": "ours", "max_iters": args.steps}
        result = run_nanopace(ours, room / "ours.log")
        theirs = run_nanogpt(args.nanogpt, {**knobs, "out_dir": str(room / "theirs")}, room / "nanogpt.log")
        _show(result, theirs, room)
        if args.keep is not None:
            args.keep.mkdir(parents=True, exist_ok=True)
            for path in [*room.glob("*.log"), room / "ours" / "ledger.jsonl"]:
                shutil.copy(path, args.keep / path.name)


def _show(ours: Result, theirs: Result, room: Path) -> None:
    events = _events(room / "ours")
    ours_ms, theirs_ms = ours.step_ms(), theirs.step_ms()
    evaluations = [each["ms"] for each in events if each["event"] == "eval" and each["iteration"] > 0]
    saves = [each for each in events if each["event"] == "checkpoint"]
    stalls = [each["stall_ms"] for each in saves]
    steps = [each["ms"] for each in events if each["event"] == "step"][5:]
    per_interval = USUAL * ours_ms + median(evaluations) + median(stalls)
    spikes = _spikes(theirs, theirs_ms)
    print(f"\n{'':44}{'nanopace':>12}{'nanoGPT':>12}{'ratio':>8}")
    print(f"{'median step, ms':44}{ours_ms:12.1f}{theirs_ms:12.1f}{theirs_ms / ours_ms:8.3f}")
    print(f"{'tokens/s':44}{STEP_TOKENS / ours_ms * 1000:12,.0f}{STEP_TOKENS / theirs_ms * 1000:12,.0f}")
    print(f"{'longest step / median, after 5 steps':44}{max(steps) / ours_ms:12.3f}")
    print(f"{'evaluation of 1.6M validation tokens, ms':44}{median(evaluations):12.0f}")
    print(f"{'checkpoint: training blocked, ms (longest)':44}{max(stalls):12.1f}")
    print(f"{'checkpoint: in the background, ms':44}{median(each['background_ms'] for each in saves):12.0f}")
    both = median(evaluations) + median(stalls)
    print(f"{'evaluation and checkpoint together, ms':44}{both:12.0f}{spikes:12.0f}{spikes / both:8.1f}")
    share, their_share = both / per_interval, spikes / (USUAL * theirs_ms + spikes)
    print(f"{f'share of the wall clock, every {USUAL} steps':44}{share:12.2%}{their_share:12.2%}")
    wall = diagnose(open_run(room / "ours" / "ledger.jsonl")).wall
    at = sorted({each["iteration"] for each in events if each["event"] == "eval"})
    print(f"{f'measured share, evaluations at {at}':44}{wall.overhead_share:12.2%} of {wall.total_s:.0f} s")
    losses = [_losses(each) for each in (ours, theirs)]
    print(f"{'mean loss of steps 41 to 45':44}{losses[0]:12.4f}{losses[1]:12.4f}")


def _events(out_dir: Path) -> list[dict]:
    return [json.loads(line) for line in (out_dir / "ledger.jsonl").read_text().splitlines()]


def _spikes(theirs: Result, step_ms: float) -> float:
    """What nanoGPT's evaluation and checkpoint add to their row."""
    rows = {row.iteration: row.ms for row in theirs.run.rows}
    return median([rows[at] - step_ms for at in rows if at and at % EVERY == 0])


def _losses(result: Result) -> float:
    found = [float(each) for each in re.findall(r"^iter \d+: loss ([\d.]+)", result.text, re.MULTILINE)]
    return sum(found[41:46]) / 5


if __name__ == "__main__":
    main()
