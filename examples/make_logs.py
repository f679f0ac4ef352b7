"""Write the example logs: nanoGPT's lines, from figures that real runs had, with seeded noise.

    python examples/make_logs.py

    slow-rows.log    one row in five takes 35 times as long as its neighbours, and the mfu seems to fall
    narrow.log       384 wide, micro-batch 16 (its config: narrow.py)
    wide.log         768 wide, micro-batch 8 (its config: wide.py): slower per token, and better in the end
    wide-header.log  the same as wide.log, with nanoGPT's header: nothing has to be passed
    debris.log       slow-rows.log as it looks when it was copied out of a terminal of 64 columns
    fast-card.log    a card faster than the A100 that nanoGPT assumes: mfu 163%; half-way its steps become 22% slower
    nan.log          a small model whose mfu rounds to 0.00, and whose loss becomes NaN

The same seed gives the same bytes: a test writes them anew and compares.
"""

from __future__ import annotations

import bisect
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
A100_FLOPS = 312e12  # what nanoGPT divides by, whatever card runs


@dataclass(frozen=True)
class Script:
    """A nanoGPT run, as far as its log shows it."""

    seed: int
    max_iters: int
    log_interval: int
    eval_interval: int
    step_ms: float
    step_noise: float  # standard deviation, as a share
    uneven: float  # share of the steps that take about 9% longer
    first_ms: float  # iteration 0: first evaluation, compile, one step
    evaluation_ms: float
    checkpoint_ms: float
    flops_per_iteration: float
    always_save: bool
    val_loss: tuple[tuple[int, float], ...]  # between these points the loss is linear in ln(iteration + 1)
    loss_noise: float  # of the printed loss: one micro-batch
    eval_noise: float  # of an evaluation: eval_iters batches
    out_dir: str
    header: str = ""
    slower_from: float = math.inf  # from this iteration on, steps take `slower` times as long
    slower: float = 1.0
    nan_from: float = math.inf  # from this iteration on, every loss is NaN


NARROW_LOSS = (
    (0, 10.8727), (500, 5.5328), (1000, 4.4593), (1500, 4.1375), (2000, 4.0277), (3000, 3.8878), (4500, 3.7954),
    (7000, 3.6934), (8000, 3.6538), (11000, 3.6098), (14000, 3.5787), (20000, 3.5228),
)  # fmt: skip
WIDE_LOSS = (
    (0, 10.9913), (500, 5.5194), (1000, 4.3774), (1500, 4.0328), (2000, 3.8603), (2500, 3.7707), (3000, 3.6800),
    (4000, 3.6060), (5000, 3.5300),
)  # fmt: skip

SLOW_ROWS = Script(
    seed=1, max_iters=20_000, log_interval=100, eval_interval=500, step_ms=169.24, step_noise=0.003, uneven=0.12,
    first_ms=12_543.49, evaluation_ms=5136, checkpoint_ms=467, flops_per_iteration=0.1206 * A100_FLOPS * 0.16924,
    always_save=False, loss_noise=0.14, eval_noise=0.006, out_dir="out-openwebtext",
    val_loss=((0, 10.8781), (500, 7.0624), (1000, 6.2273), (2000, 5.2756), (3000, 4.7682), (5000, 4.4300),
              (10_000, 4.2066), (15_000, 4.0872), (18_000, 4.0541), (20_000, 4.0543)),
)  # fmt: skip
NARROW = Script(
    seed=2, max_iters=20_000, log_interval=200, eval_interval=500, step_ms=3909.8, step_noise=0.0006, uneven=0.04,
    first_ms=32_025.45, evaluation_ms=15_080, checkpoint_ms=200, flops_per_iteration=300.0e6 * 524_288,
    always_save=True, loss_noise=0.12, eval_noise=0.003, out_dir="out-fineweb", val_loss=NARROW_LOSS,
)  # fmt: skip
WIDE = Script(
    seed=3, max_iters=4_800, log_interval=200, eval_interval=500, step_ms=9346.1, step_noise=0.0006, uneven=0.04,
    first_ms=29_250.35, evaluation_ms=19_200, checkpoint_ms=590, flops_per_iteration=854.8e6 * 524_288,
    always_save=True, loss_noise=0.12, eval_noise=0.003, out_dir="out-fineweb", val_loss=WIDE_LOSS,
)  # fmt: skip
FAST_CARD = Script(
    seed=5, max_iters=2_000, log_interval=10, eval_interval=500, step_ms=881.0, step_noise=0.002, uneven=0.0,
    first_ms=41_200.0, evaluation_ms=9_700, checkpoint_ms=2_100, flops_per_iteration=1.63 * A100_FLOPS * 0.881,
    always_save=True, loss_noise=0.12, eval_noise=0.003, out_dir="out", val_loss=WIDE_LOSS,
    slower_from=1000, slower=1.22,
)  # fmt: skip
NAN = Script(
    seed=6, max_iters=1_200, log_interval=10, eval_interval=250, step_ms=21.4, step_noise=0.01, uneven=0.0,
    first_ms=9_310.0, evaluation_ms=1_480, checkpoint_ms=60, flops_per_iteration=0.00003 * A100_FLOPS * 0.0214,
    always_save=False, loss_noise=0.05, eval_noise=0.01, out_dir="out-shakespeare-char",
    val_loss=((0, 4.2874), (250, 2.4610), (500, 2.0893), (750, 1.9012), (1_200, 1.7433)), nan_from=870,
)  # fmt: skip


def lines(script: Script) -> Iterator[str]:
    """The log, line by line, in the order in which nanoGPT prints."""
    rng = random.Random(script.seed)
    yield from script.header.splitlines()
    mfu, best = -1.0, math.inf
    for iteration in range(script.max_iters + 1):
        ms = script.step_ms * (1 + rng.gauss(0, script.step_noise))
        if rng.random() < script.uneven:
            ms *= rng.uniform(1.02, 1.11)
        if iteration >= script.slower_from:
            ms *= script.slower
        if iteration % script.eval_interval == 0:
            val = loss_at(script, iteration) + rng.gauss(0, script.eval_noise)
            train = loss_at(script, iteration) - 0.16 * iteration / 20_000 + rng.gauss(0, 0.008)
            yield f"step {iteration}: train loss {train:.4f}, val loss {val:.4f}"
            ms += script.evaluation_ms + rng.gauss(0, 8)
            if iteration > 0 and (val < best or script.always_save):
                yield f"saving checkpoint to {script.out_dir}"
                ms += script.checkpoint_ms + abs(rng.gauss(0, 40))
            best = min(best, val)
        if iteration == 0:
            ms = script.first_ms
        if iteration % script.log_interval == 0:
            if iteration >= 5:
                now = script.flops_per_iteration / (ms / 1000) / A100_FLOPS
                mfu = now if mfu < 0 else 0.9 * mfu + 0.1 * now
            loss = loss_at(script, iteration) + rng.gauss(0, script.loss_noise if iteration else 0.005)
            yield f"iter {iteration}: loss {loss:.4f}, time {ms:.2f}ms, mfu {mfu * 100:.2f}%"


def loss_at(script: Script, iteration: int) -> float:
    if iteration >= script.nan_from:
        return math.nan
    iterations = [point for point, _ in script.val_loss]
    right = min(bisect.bisect_left(iterations, iteration), len(iterations) - 1)
    (x1, y1) = script.val_loss[right]
    if x1 == iteration or right == 0:
        return y1
    (x0, y0) = script.val_loss[right - 1]
    weight = (math.log(iteration + 1) - math.log(x0 + 1)) / (math.log(x1 + 1) - math.log(x0 + 1))
    return y0 + weight * (y1 - y0)


def config(batch_size: int, accumulation: int, width: int, learning_rate: str, max_iters: int) -> str:
    return f"""\
# A nanoGPT config, as train.py takes it.
out_dir = 'out-fineweb'
dataset = 'fineweb'
eval_interval = 500
eval_iters = 200
log_interval = 200
always_save_checkpoint = True
batch_size = {batch_size}
gradient_accumulation_steps = {accumulation}  # {batch_size} * {accumulation} * 1024 = 524,288 tokens per iteration
block_size = 1024
n_layer = 12
n_head = 12
n_embd = {width}
vocab_size = 50304
dropout = 0.0
bias = False
learning_rate = {learning_rate}
max_iters = {max_iters}
compile = True
"""


def header(config_text: str) -> str:
    """What nanoGPT prints before the first step of the wide model."""
    return f"""\
Overriding config with config/train_fineweb.py:
{config_text.replace("vocab_size = 50304" + chr(10), "")}
tokens per iteration will be: 524,288
Initializing a new model from scratch
defaulting to vocab_size of GPT-2 to 50304 (50257 rounded up for efficiency)
number of parameters: 123.59M
num decayed parameter tensors: 50, with 124,354,560 parameters
num non-decayed parameter tensors: 25, with 19,200 parameters
using fused AdamW: True
compiling the model... (takes a ~minute)"""


def terminal_debris(text: str, width: int = 64) -> str:
    """The same text after a terminal, a cursor key, a warning and a pair of hands had it."""
    warning = "/home/me/nanoGPT/train.py:196: FutureWarning: `torch.cuda.amp.GradScaler(args...)` is deprecated."
    rows = text.splitlines()
    rows[0:0] = [warning, "  scaler = torch.cuda.amp.GradScaler(enabled=(dtype == 'float16'))"]
    rows[20] = "^[[A^[[A" + rows[20]
    rows[40] = "33" + rows[40]
    rows[60] = "\x1b[32m" + rows[60] + "\x1b[0m"
    wrapped = [row[at : at + width] for row in rows for at in range(0, max(len(row), 1), width)]
    return "\r\n".join(wrapped) + "\r\n" + rows[-1][:9]


def main() -> None:
    narrow_config = config(16, 32, 384, "1e-3", 20_000)
    wide_config = config(8, 64, 768, "3e-4", 12_000)
    with_header = Script(**{**vars(WIDE), "seed": 4, "header": header(wide_config)})
    slow_rows = "\n".join(lines(SLOW_ROWS)) + "\n"
    files = {
        "slow-rows.log": slow_rows,
        "narrow.log": "\n".join(lines(NARROW)) + "\n",
        "wide.log": "\n".join(lines(WIDE)) + "\n",
        "wide-header.log": "\n".join(lines(with_header)) + "\n",
        "debris.log": terminal_debris(slow_rows),
        "fast-card.log": "\n".join(lines(FAST_CARD)) + "\n",
        "nan.log": "\n".join(lines(NAN)) + "\n",
        "narrow.py": narrow_config,
        "wide.py": wide_config,
    }
    for name, text in files.items():
        (HERE / name).write_bytes(text.encode())
        print(f"examples/{name}: {len(text.splitlines())} lines")


if __name__ == "__main__":
    main()
