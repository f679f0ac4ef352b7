"""What fits in memory: a step's peak, predicted and measured, and what each step of the memory ladder costs in speed.

Models of GPT-2's sizes, T = 1024, bf16, AdamW, two micro-batches and an update, on one CUDA card. Points that do not
fit are left out. The peak is what torch allocated; CUDA itself takes a few hundred MB more. Tokens per second are for
micro-batches alone; in the second table, with steps of one and of four micro-batches, they include the update.

    python bench/memory.py                             # a minute and a half on an H200
    python bench/memory.py --steps                     # only the second table: gradients kept, and released
    python bench/memory.py --most 12                   # only what is predicted to need less than 12 GiB
    python bench/memory.py --nanogpt path/to/nanoGPT   # what nanoGPT's 124M takes, and how much fits in 12 GiB
"""

from __future__ import annotations

import argparse
import gc
import tempfile
import time
from pathlib import Path

import torch

from kernels import update_of
from nanogpt import Knobs, run_nanogpt, write_zipf_tokens
from nanopace.config import TrainConfig
from nanopace.hardware.memory import GIB, fused_peak_bytes
from nanopace.memory_ladder import MEMORY_STEPS, keeps_gradients
from nanopace.train.fused.attention import pick_attention
from nanopace.train.fused.gpt2 import FusedGPT
from nanopace.train.fused.step_in_backward import StepInBackward
from nanopace.train.loop.passes import FusedPasses
from nanopace.train.models.gpt2 import GPT, ModelShape
from nanopace.train.optim.optimizer import make_optimizer

MODELS = {"124M": (12, 12, 768), "350M": (24, 16, 1024), "774M": (36, 20, 1280), "1.0B": (30, 25, 1600)}
# model, micro-batch, how many steps of the ladder
POINTS = [
    ("124M", 8, 0), ("124M", 20, 0), ("124M", 40, 0), ("124M", 40, 1), ("124M", 48, 1), ("124M", 40, 2),
    ("124M", 40, 3), ("124M", 96, 3), ("124M", 40, 4), ("350M", 4, 0), ("350M", 8, 1), ("350M", 16, 2),
    ("350M", 32, 3), ("350M", 32, 4), ("774M", 1, 4), ("774M", 2, 4), ("774M", 4, 4), ("774M", 8, 4),
]  # fmt: skip
SINGLE = [
    ("124M", 8, 0), ("124M", 8, 4), ("124M", 8, 5), ("350M", 16, 4), ("350M", 16, 5), ("774M", 2, 4), ("774M", 8, 4),
    ("774M", 2, 5), ("774M", 8, 5), ("774M", 12, 5), ("1.0B", 4, 4), ("1.0B", 4, 5),
]  # fmt: skip
FOURFOLD = [("774M", 2, 4)]  # eight sequences per step, as a card of 12 GB takes them if it keeps gradients
DEVICE = torch.device("cuda", 0)
VOCAB, LENGTH, TIMED, CLIP = 50304, 1024, 8, 1.0
FEW, MANY = 4, 12  # sequences in nanoGPT's micro-batches
OF_NANOGPT: Knobs = {
    "block_size": LENGTH,
    "gradient_accumulation_steps": 2,
    "max_iters": 5,
    "eval_interval": 100,
    "eval_iters": 1,
    "dtype": "bfloat16",
}
LIMIT, OF_CUDA = 12, 0.5  # GiB: of a card, and what CUDA itself takes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most", type=float, help="memory limit in GiB (default: the whole card)")
    parser.add_argument("--steps", action="store_true", help="only whole steps, including the update")
    parser.add_argument("--nanogpt", type=Path, help="measure this nanoGPT checkout instead")
    args = parser.parse_args()
    if args.nanogpt is not None:
        _measure_nanogpt(args.nanogpt)
        return
    most = args.most or torch.cuda.get_device_properties(DEVICE).total_memory / GIB
    if not args.steps:
        _table(POINTS, most)
        print("\nsteps of one micro-batch, including the update")
    _table(SINGLE, most, micro_batches=1)
    print("\nsteps of four micro-batches, including the update")
    _table(FOURFOLD, most, micro_batches=4)


def _table(points: list[tuple[str, int, int]], most: float, micro_batches: int = 0) -> None:
    """Print a table, with an update after every `micro_batches`; 0 means without updates."""
    print(f"{'model':>6}{'sequences':>11}  {'ladder':53}{'predicted':>10}{'measured':>10}{'error':>8}{'tokens/s':>10}")
    for name, batch, count in points:
        layers, heads, width = MODELS[name]
        shape = ModelShape(n_layer=layers, n_head=heads, n_embd=width, vocab_size=VOCAB, block_size=LENGTH)
        steps = MEMORY_STEPS[:count]
        predicted = fused_peak_bytes((layers, width, VOCAB, LENGTH), batch, steps)
        if predicted > most * GIB:
            continue
        measured, speed = _measure(shape, batch, steps, micro_batches)
        error = predicted / measured - 1
        print(
            f"{name:>6}{batch:>11}  {', '.join(steps) or 'everything kept':53}"
            f"{predicted / GIB:10.2f}{measured / GIB:10.2f}{error:+8.1%}{speed:10,.0f}",
            flush=True,
        )


def _measure(shape: ModelShape, batch: int, steps: tuple[str, ...], micro_batches: int) -> tuple[int, float]:
    """The peak in bytes, and tokens per second."""
    pick_attention(shape, batch, DEVICE, torch.bfloat16)
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats(DEVICE)
    with DEVICE:
        model = GPT(shape)
        tokens = torch.randint(0, VOCAB, (batch, LENGTH + 1))
    released = not keeps_gradients(steps)
    fused = FusedGPT(model, steps)
    optimizer = make_optimizer(model, TrainConfig(), DEVICE, steps)
    if released:
        fused.release = StepInBackward(optimizer, CLIP, DEVICE)
    passes = FusedPasses(fused)
    inputs, targets = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
    for _ in range(2):
        passes(inputs, targets, 1)
    if not released:  # otherwise it is already done
        update_of(passes, optimizer, CLIP)
    torch.cuda.synchronize()
    peak = torch.cuda.max_memory_allocated(DEVICE)
    passes.capture_graph(inputs, targets, 1)  # as the trainer does
    begin = time.perf_counter()
    for done in range(1, TIMED + 1):
        passes(inputs, targets, 1)
        if micro_batches and done % micro_batches == 0 and not released:
            update_of(passes, optimizer, CLIP)
    torch.cuda.synchronize()
    seconds = time.perf_counter() - begin
    del model, fused, optimizer, passes
    gc.collect()
    return peak, TIMED * batch * LENGTH / seconds


# --- nanoGPT ---------------------------------------------------------------------------------------------------------


def _measure_nanogpt(checkout: Path) -> None:
    """Fit a line through two micro-batch sizes: every part of its memory is either constant or grows with the size."""
    with tempfile.TemporaryDirectory() as folder:
        room = Path(folder)
        data = write_zipf_tokens(room / "data", 1_000_000, 100_000, VOCAB)
        knobs: Knobs = {**OF_NANOGPT, "dataset": str(data), "out_dir": str(room / "out")}
        few, many = (
            (run_nanogpt(checkout, {**knobs, "batch_size": batch}, room / "log", tell_peak=True).peak_bytes or 0) / GIB
            for batch in (FEW, MANY)
        )
    each = (many - few) / (MANY - FEW)
    fixed = few - FEW * each
    print(
        f"nanoGPT 124M: {few:.2f} GiB with {FEW} sequences, {many:.2f} with {MANY}: "
        f"{fixed:.2f} plus {each:.3f} per sequence"
    )
    print(f"{int((LIMIT - OF_CUDA - fixed) / each)} sequences fit in {LIMIT} GiB, of which CUDA itself takes {OF_CUDA}")


if __name__ == "__main__":
    main()
