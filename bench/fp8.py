"""Does fp8 pay? Matrix products of GPT-2's widths in bf16 and fp8, with what it costs to get there, and the loss.

Three ways to an fp8 operand: `free`, as if it were there; `fused`, where the kernel before writes it too, with a scale
that is known beforehand (a norm's output is bounded by the root of its width); `dynamic`, by a pass that looks for the
largest value and another that casts, as torchao's tensorwise recipe does.

    python bench/fp8.py             # the products: one minute on an H200
    python bench/fp8.py --loss      # also GPT-2 124M for 200 steps, forward products after norms in fp8: two minutes
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch
import triton
import triton.language as tl
from torch import Tensor

from nanopace.config import TrainConfig
from nanopace.corpus.order import Order
from nanopace.corpus.prepare import ensure
from nanopace.corpus.shards import open_corpus
from nanopace.train.attention import pick_attention
from nanopace.train.fused import Again, FusedGPT, Kept, Layer, rows_of
from nanopace.train.kernels.activation import gelu
from nanopace.train.kernels.layer_norm import EPSILON, layer_norm
from nanopace.train.kernels.rows import block_of, warps_of
from nanopace.train.model import GPT, ModelShape
from nanopace.train.optimizer import make_optimizer, set_learning_rate
from nanopace.train.schedule import learning_rate

DEVICE = torch.device("cuda", 0)
WIDTHS, ROWS, VOCAB = (768, 1280, 1600, 2048), 32768, 50304
EIGHTH, LARGEST = torch.float8_e4m3fn, 448.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loss", action="store_true")
    args = parser.parse_args()
    if torch.cuda.get_device_capability(DEVICE) < (8, 9):
        print(f"{torch.cuda.get_device_name(DEVICE)} has no fp8: Ada, Hopper and Blackwell do")
        return
    print(
        f"{'width':>6}  {'product':24}{'bf16 ms':>9}{'free':>8}{'fused':>8}{'dynamic':>9}   (times the speed of bf16)"
    )
    for width in WIDTHS:
        _products(width)
    if args.loss:
        _losses()


# --- products --------------------------------------------------------------------------------------------------------


def _products(width: int) -> None:
    shapes = {
        "qkv": (width, 3 * width),
        "attention's out": (width, width),
        "MLP into": (width, 4 * width),
        "MLP out of": (4 * width, width),
        "head, 8192 rows": (width, VOCAB),
    }
    for name, (into, out) in shapes.items():
        rows = 8192 if "head" in name else ROWS
        x, weight = _random(rows, into), _random(out, into)
        x8, weight8 = _eighth(x), _eighth(weight)
        bf16 = _time(lambda x=x, weight=weight: torch.mm(x, weight.t()))
        fp8 = _time(lambda x8=x8, weight8=weight8: _product(*x8, *weight8))
        # A norm that writes fp8 too, less one that does not.
        fused = fp8 + _time(lambda x=x: _norm_and_eighth(x)) - _time(lambda x=x: layer_norm(x))
        dynamic = fp8 + _time(lambda x=x: _eighth(x))
        print(f"{width:>6}  {name:24}{bf16:9.3f}{bf16 / fp8:8.2f}{bf16 / fused:8.2f}{bf16 / dynamic:9.2f}", flush=True)


def _random(*size: int) -> Tensor:
    return torch.randn(size, device=DEVICE).bfloat16()


def _eighth(x: Tensor) -> tuple[Tensor, Tensor]:
    """The matrix in fp8, and what it is to be multiplied with."""
    scale = x.abs().amax().float() / LARGEST
    return (x * (1 / scale)).to(EIGHTH), scale


def _product(x: Tensor, x_scale: Tensor, weight: Tensor, weight_scale: Tensor) -> Tensor:
    out: Tensor = torch._scaled_mm(
        x, weight.t(), scale_a=x_scale, scale_b=weight_scale, out_dtype=torch.bfloat16, use_fast_accum=True
    )
    return out


def _time(do: Callable[[], object], count: int = 20) -> float:
    for _ in range(3):
        do()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(count):
        do()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / count


def _norm_and_eighth(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    rows, width = x.shape
    y, y8 = torch.empty_like(x), torch.empty_like(x, dtype=EIGHTH)
    factor = torch.empty(rows, device=x.device, dtype=torch.float32)
    scale = LARGEST / width**0.5
    _norm[(rows,)](x, y, y8, factor, width, EPSILON, scale, BLOCK=block_of(width), num_warps=warps_of(width))
    return y, factor, y8


@triton.jit
def _norm(x, y, y8, factor, width, epsilon, scale, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < width
    value = tl.load(x + row * width + columns, inside, 0.0).to(tl.float32)
    value = tl.where(inside, value - tl.sum(value, 0) / width, 0.0)
    inverse = 1 / tl.sqrt(tl.sum(value * value, 0) / width + epsilon)
    tl.store(factor + row, inverse)
    value *= inverse
    tl.store(y + row * width + columns, value.to(y.dtype.element_ty), inside)
    tl.store(y8 + row * width + columns, (value * scale).to(y8.dtype.element_ty), inside)


# --- the loss --------------------------------------------------------------------------------------------------------


class EighthGPT(FusedGPT):
    """Forward products after norms in fp8: to queries, keys and values, and into the MLP."""

    def renew(self) -> None:
        super().renew()
        self._eighths = {id(each): _eighth(each.copy) for each in self._matrices}
        width = self._tokens.size(1)
        self._scale = torch.tensor(width**0.5 / LARGEST, device=DEVICE)

    def _forward(self, layer: Layer, x: Tensor, batch: int) -> Kept:
        y_1, factor_1, y8 = _norm_and_eighth(x)
        packed = _product(y8, self._scale, *self._eighths[id(layer.attention)])
        attended = self._attend(packed, batch)
        x.addmm_(rows_of(attended.found), layer.projection.copy.t())
        y_2, factor_2, y8 = _norm_and_eighth(x)
        h = _product(y8, self._scale, *self._eighths[id(layer.into)])
        g = gelu(h)
        x.addmm_(g, layer.out_of.copy.t())
        return Kept(y_1, factor_1, attended, y_2, factor_2, h, g)


def _losses() -> None:
    corpus = open_corpus(ensure("python"))
    assert corpus.vocab_size is not None
    vocab = -(-corpus.vocab_size // 64) * 64
    shape = ModelShape(n_layer=12, n_head=12, n_embd=768, vocab_size=vocab, block_size=1024)
    config = TrainConfig(learning_rate=6e-4, min_lr=6e-5, warmup_iters=20, lr_decay_iters=200, max_iters=200)
    pick_attention(shape, 64, DEVICE, torch.bfloat16)
    for kind in (FusedGPT, EighthGPT, FusedGPT):
        torch.manual_seed(1337)
        model = GPT(shape).to(DEVICE)
        fused = kind(model, Again.NOTHING)
        optimizer = make_optimizer(model, config, DEVICE)
        order = Order(corpus.train, 1024, 1337)
        windows = torch.empty((200 * 64, 1025), dtype=torch.int32).numpy()
        corpus.train.gather(order.starts(0, len(windows)), 1025, windows)
        losses: list[Tensor] = []
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for step, some in enumerate(torch.from_numpy(windows).view(200, 64, 1025)):
            tokens = some.to(DEVICE).long()
            losses.append(fused.gradients(tokens[:, :-1], tokens[:, 1:]))
            fused.finish()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            set_learning_rate(optimizer, learning_rate(config, step))
            optimizer.step()
            fused.forget()
            fused.renew()
        mean = torch.stack(losses[-20:]).mean().item()
        step_ms = (time.perf_counter() - begin) / len(losses) * 1000
        print(f"{kind.__name__:12} {step_ms:.1f} ms a step, mean loss of the last 20: {mean:.4f}")


if __name__ == "__main__":
    main()
