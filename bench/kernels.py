"""Where a micro-step's time goes, by class of kernel, and the least time each class could take on this card.

GPT-2 124M, T = 1024, bf16: profiles one micro-batch, forward and backward, and one update of the weights. The limits
come from two ceilings measured in the same run: a large product for kernels that multiply, and a large copy for those
that only read and write (kernel_classes.py).

    python bench/kernels.py
    python bench/kernels.py --recipe fast
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kernel_classes import Ceilings, Kernel, Shape, by_class, least
from nanopace.config import TrainConfig
from nanopace.knob_values import ingredients

VOCAB, LENGTH = 50304, 1024
ROOM_FOR_64 = 40  # GB
SIDE, COPY_BYTES = 8192, 1 << 30  # sizes for measuring the ceilings
TIMES = 5


@dataclass(frozen=True, slots=True)
class Measured:
    card: str
    shape: Shape
    ceilings: Ceilings
    step: list[Kernel]
    update: list[Kernel]
    step_ms: float  # by the clock


# --- on the card -----------------------------------------------------------------------------------------------------


def measure(recipe: str, batch: int | None) -> Measured:
    import torch

    from nanogpt import zipf_tokens
    from nanopace.train.models.recipes import recipe_defaults

    device = torch.device("cuda", 0)
    properties = torch.cuda.get_device_properties(device)
    batch = batch or (64 if properties.total_memory / 1e9 > ROOM_FOR_64 else 8)
    ceilings = _ceilings(device)
    config = TrainConfig(recipe=recipe, batch_size=batch, **recipe_defaults(recipe, 100))  # type: ignore[arg-type]
    fused, optimizer = trainer_of(config, device)
    windows = torch.from_numpy(zipf_tokens(batch * (LENGTH + 1), VOCAB, 1).astype("int64")).view(batch, -1).to(device)
    inputs, targets = windows[:, :-1].contiguous(), windows[:, 1:].contiguous()

    def step() -> object:
        return fused.gradients(inputs, targets)

    def update() -> None:
        update_of(fused, optimizer, config.grad_clip)

    step()
    shape = _shape(config, seen=inputs.unique().numel())
    step_ms = milliseconds(step)
    card = f"{properties.name}, torch {torch.__version__}, recipe {recipe}"
    return Measured(card, shape, ceilings, _profiled(step), _profiled(update, prepare=step), step_ms)


def trainer_of(config: TrainConfig, device: Any) -> tuple[Any, Any]:
    """A model with our kernels, and its optimizer."""
    import torch

    from nanopace.train.fused.attention import pick_attention
    from nanopace.train.fused.fast import FusedFastGPT
    from nanopace.train.fused.gpt2 import FusedGPT
    from nanopace.train.models.fast import FastGPT
    from nanopace.train.models.gpt2 import ModelShape
    from nanopace.train.models.recipes import new_model
    from nanopace.train.optim.optimizer import make_optimizer

    sizes = {"n_layer": config.n_layer, "n_head": config.n_head, "n_embd": config.n_embd}
    shape = ModelShape(**sizes, vocab_size=VOCAB, block_size=LENGTH, recipe=config.recipe)
    pick_attention(shape, config.batch_size, device, torch.bfloat16)
    with device:
        model = new_model(shape)
    fused = FusedFastGPT(model) if isinstance(model, FastGPT) else FusedGPT(model)
    return fused, make_optimizer(model, config, device)


def _shape(config: TrainConfig, seen: int) -> Shape:
    from nanopace.train.models.fast import value_tables

    has = ingredients(config.recipe, config.without)
    values = value_tables(config.n_layer) if "value_embeddings" in has else {}
    return Shape(
        config.n_layer,
        config.n_embd,
        VOCAB,
        LENGTH,
        config.batch_size,
        seen,
        has,
        tables=1 + len(set(values.values())),
        valued=len(values),
    )


def update_of(passes: Any, optimizer: Any, clip: float) -> None:
    """Update the weights as train/loop/stepper.py does."""
    import torch
    from torch.nn.utils import clip_grads_with_norm_, get_total_norm

    passes.finish()
    weights = [each for group in optimizer.param_groups for each in group["params"]]
    norm = get_total_norm([each.grad for each in weights])
    if clip:
        clip_grads_with_norm_(weights, clip, norm)
    optimizer.found_inf = (~torch.isfinite(norm)).float()
    optimizer.step()
    passes.zero_grad()
    passes.refresh_copies()


def _ceilings(device: Any) -> Ceilings:
    """The best of several trials each: any disturbance only makes one slower."""
    import torch

    a, b = (torch.randn((SIDE, SIDE), device=device).bfloat16() for _ in range(2))
    source, target = (torch.empty(COPY_BYTES, dtype=torch.uint8, device=device) for _ in range(2))
    product = min(milliseconds(lambda: torch.mm(a, b)) for _ in range(TIMES))
    copy = min(milliseconds(lambda: target.copy_(source)) for _ in range(TIMES))
    return Ceilings(2 * SIDE**3 / product * 1000, 2 * COPY_BYTES / copy * 1000)


def milliseconds(do: Callable[[], object], count: int = 2 * TIMES) -> float:
    """The card's time for one call, by its own clock, after a warm-up."""
    import torch

    from nanopace.train.kernels.timing import seconds_of

    for _ in range(2):
        do()
    return seconds_of(do, count, torch.device("cuda", 0)) / count * 1000


def _profiled(do: Callable[[], object], prepare: Callable[[], object] = lambda: None) -> list[Kernel]:
    """All kernels that ran on the card, each with its share of the time of one call, without the preparation."""
    from torch.autograd import DeviceType

    found = []
    for number in range(1 + TIMES):
        prepare()
        events = _events(do)
        if number:  # the first one is a warm-up
            found += [each for each in events if each.device_type == DeviceType.CUDA and not each.is_user_annotation]
    return [Kernel(each.name, each.time_range.elapsed_us() / 1000 / TIMES) for each in found]


def _events(do: Callable[[], object]) -> list[Any]:
    import torch
    from torch.profiler import ProfilerActivity, profile

    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        do()
        torch.cuda.synchronize()
    return list(profiler.events() or ())


# --- the table -------------------------------------------------------------------------------------------------------


def table(measured: Measured) -> list[str]:
    """The table's lines; a class that does not occur has none."""
    times, work = by_class(measured.step, measured.update), least(measured.shape)
    limits = {kind: measured.ceilings.ms(work[kind]) for kind in times}
    whole = sum(times.values())
    lines = [f"{'class':20}{'ms':>9}{'limit ms':>10}{'ratio':>8}{'share':>8}"]
    lines += [_line(kind, ms, limits[kind], whole) for kind, ms in times.items() if ms]
    lines.append(_line("sum", whole, sum(limits[kind] for kind, ms in times.items() if ms), whole))
    return lines


def _line(kind: str, ms: float, limit: float, whole: float) -> str:
    ratio = f"{ms / limit:8.2f}" if limit else f"{'-':>8}"
    return f"{kind:20}{ms:9.2f}{limit:10.2f}{ratio}{ms / whole:8.1%}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipe", choices=("gpt2", "fast"), default="gpt2")
    parser.add_argument("--micro_batch", type=int, help="sequences (default: 64; 8 below 40 GB of GPU memory)")
    args = parser.parse_args()
    measured = measure(args.recipe, args.micro_batch)
    ceilings, working = measured.ceilings, sum(kernel.ms for kernel in measured.step)
    print(f"{measured.card}: a micro-step of {measured.shape.batch} x {measured.shape.length} tokens, and an update")
    print(f"ceilings: products {ceilings.flops / 1e12:.0f} TFLOP/s, copies {ceilings.bytes / 1e9:.0f} GB/s")
    print(f"a micro-step takes {measured.step_ms:.2f} ms of wall-clock time; kernels run for {working:.2f} ms of it")
    print("\n".join(table(measured)))


if __name__ == "__main__":
    main()
