"""Does fp8 pay off? Matrix products of GPT-2's widths in bf16 and fp8, including the casts, and the effect on the loss.

There are three ways to get an fp8 operand: `free` assumes it already exists; `fused` lets the preceding kernel write it
too, with a scale known beforehand (a norm's output is bounded by the root of its width), as the trainer does; `dynamic`
takes one pass to find the largest value and another to cast, like torchao's tensorwise recipe.

    python bench/fp8.py                     # the products: one minute on an H200
    python bench/fp8.py --loss              # also GPT-2 124M for 200 steps, in bf16 and with several products in fp8
    python bench/fp8.py --loss head qkv,into    # only these products: half a minute per run
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from kernels import milliseconds, update_of
from nanopace.config import TrainConfig
from nanopace.corpus.prepare.prepare import ensure
from nanopace.corpus.shards.corpus import open_corpus
from nanopace.corpus.shards.order import Order
from nanopace.train.fused.attention import pick_attention
from nanopace.train.fused.gpt2 import FusedGPT
from nanopace.train.kernels.fp8 import FP8, PRODUCTS, Fp8Weight, pick_products
from nanopace.train.kernels.norm import layer_norm
from nanopace.train.loop.schedule import learning_rate
from nanopace.train.models.gpt2 import GPT, ModelShape
from nanopace.train.optim.optimizer import make_optimizer, set_learning_rate
from nanopace.train.plan.device import has_fp8

DEVICE = torch.device("cuda", 0)
WIDTHS, ROWS, VOCAB = (768, 1280, 1600, 2048), 32768, 50304
BATCH, LENGTH, STEPS = 64, 1024, 200
WAYS = ("head", "into", "qkv,into,head")  # the head only, the MLP only, all after norms


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    runs = f"also train, and print the losses; each argument is a run with fp8 for some of {','.join(PRODUCTS)}"
    parser.add_argument("--loss", nargs="*", metavar="PRODUCTS", help=runs)
    args = parser.parse_args()
    ways = [tuple(each.split(",")) for each in args.loss or WAYS]
    if not all(set(each) <= set(PRODUCTS) for each in ways):
        parser.error(f"--loss: each argument must be a comma-separated list out of {','.join(PRODUCTS)}")
    if not has_fp8(DEVICE):
        print(f"{torch.cuda.get_device_name(DEVICE)} does not support fp8; Ada, Hopper and Blackwell do")
        return
    print(f"{'width':>6}  {'product':24}{'bf16 ms':>9}{'free':>8}{'fused':>8}{'dynamic':>9}   (speed relative to bf16)")
    for width in WIDTHS:
        _products(width)
    if args.loss is not None:
        _losses([(), *ways, ()])


# --- products --------------------------------------------------------------------------------------------------------


def _products(width: int) -> None:
    shapes = {
        "qkv": (width, 3 * width),
        "attention out": (width, width),
        "MLP in": (width, 4 * width),
        "MLP out": (4 * width, width),
        "head, 8192 rows": (width, VOCAB),
    }
    for name, (into, out) in shapes.items():
        rows = 8192 if "head" in name else ROWS
        x, weight = _random(rows, into), _random(out, into)
        x8, fp8_x, fp8_weight = torch.empty_like(x, dtype=FP8), Fp8Weight(x), Fp8Weight(weight)
        fp8_weight.quantize(weight)
        layer_norm(x, x8)
        bf16 = _time(lambda x=x, weight=weight: torch.mm(x, weight.t()))
        fp8 = _time(lambda x8=x8, fp8_weight=fp8_weight: fp8_weight.product(x8))
        # The time of a norm that also writes fp8, minus that of one that does not.
        fused = fp8 + _time(lambda x=x, x8=x8: layer_norm(x, x8)) - _time(lambda x=x: layer_norm(x))
        dynamic = fp8 + _time(lambda x=x, fp8_x=fp8_x: fp8_x.quantize(x))
        print(f"{width:>6}  {name:24}{bf16:9.3f}{bf16 / fp8:8.2f}{bf16 / fused:8.2f}{bf16 / dynamic:9.2f}", flush=True)


def _random(*size: int) -> Tensor:
    return torch.randn(size, device=DEVICE).bfloat16()


def _time(do: Callable[[], object]) -> float:
    return milliseconds(do, 20)


# --- the loss --------------------------------------------------------------------------------------------------------


def _losses(ways: Sequence[tuple[str, ...]]) -> None:
    """Train on the same windows from the same weights; bf16 runs first and last, to show the noise."""
    corpus = open_corpus(ensure("python"))
    assert corpus.vocab_size is not None
    vocab = -(-corpus.vocab_size // 64) * 64
    shape = ModelShape(n_layer=12, n_head=12, n_embd=768, vocab_size=vocab, block_size=LENGTH)
    windows = torch.empty((STEPS * BATCH, LENGTH + 1), dtype=torch.int32)
    corpus.train.gather(Order(corpus.train, LENGTH, 1337).starts(0, len(windows)), LENGTH + 1, windows.numpy())
    pick_attention(shape, BATCH, DEVICE, torch.bfloat16)
    print(f"the trainer would choose {pick_products(shape, BATCH * LENGTH, DEVICE)[1]}")
    for fp8 in ways:
        step_ms, loss = _trained(shape, fp8, windows.view(STEPS, BATCH, LENGTH + 1))
        name = ", ".join(fp8) or "none"
        print(f"fp8: {name:18}{step_ms:7.1f} ms per step, mean loss of the last 20 steps: {loss:.4f}", flush=True)


def _trained(shape: ModelShape, fp8: tuple[str, ...], windows: Tensor) -> tuple[float, float]:
    """Milliseconds per step, and the loss at the end."""
    config = TrainConfig(
        learning_rate=6e-4, min_lr=6e-5, warmup_iters=STEPS // 10, lr_decay_iters=STEPS, max_iters=STEPS
    )
    torch.manual_seed(1337)
    model = GPT(shape).to(DEVICE)
    fused = FusedGPT(model, fp8=fp8)
    optimizer = make_optimizer(model, config, DEVICE)
    _gradients(fused, windows[0])  # compiles the kernels
    fused.zero_grad()
    losses: list[Tensor] = []
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for step, some in enumerate(windows):
        losses.append(_gradients(fused, some))
        set_learning_rate(optimizer, learning_rate(config, step))
        update_of(fused, optimizer, config.grad_clip)
    loss = torch.stack(losses[-20:]).mean().item()
    return (time.perf_counter() - begin) / len(losses) * 1000, loss


def _gradients(fused: FusedGPT, windows: Tensor) -> Tensor:
    tokens = windows.to(DEVICE).long()
    return fused.gradients(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())


if __name__ == "__main__":
    main()
