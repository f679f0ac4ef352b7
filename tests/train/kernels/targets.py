"""Compiles every kernel for cards that need not be present: Triton includes the assembler for all of them.

It runs in its own process, where Triton must not interpret. It compiles what complete passes and steps launch: they run
on torch's meta device, and the launches are recorded. Prints a JSON line for each kernel.

    python tests/train/kernels/targets.py 80,86,89,90,120 384,768,1280,1600,4096 rope,soft_cap,normuon

The last argument names ingredients to leave out of recipe fast, in addition to the recipes as they are. All of this
takes five minutes.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor
from triton.backends.compiler import GPUTarget
from triton.runtime.jit import JITFunction

from nanopace.config import TrainConfig
from nanopace.train.fused.fast import FusedFastGPT
from nanopace.train.fused.gpt2 import FusedGPT
from nanopace.train.fused.model import Fused
from nanopace.train.kernels.attention import TILES, attention_backward
from nanopace.train.kernels.checksum import checksums
from nanopace.train.kernels.fp8 import FP8, FP8_GRADIENT, PRODUCTS
from nanopace.train.models.fast import FastGPT
from nanopace.train.models.gpt2 import ModelShape
from nanopace.train.models.recipes import new_model
from nanopace.train.optim.bf16_adamw import Bf16AdamW
from nanopace.train.optim.muon import MuonAndAdamW
from nanopace.train.optim.optimizer import make_optimizer

BATCH = 8
ADA = 89  # the first with 8 bits
HOPPERS = 90  # where attention's backward pass is ours
HOPPER = re.compile(r"wgmma|cp\.async\.bulk|mbarrier|barrier\.cluster|setmaxnreg|tcgen05")  # and Blackwell


class Launch(NamedTuple):
    """A kernel and its arguments."""

    kernel: Any  # a JITFunction
    arguments: tuple[object, ...]
    options: dict[str, object]

    @property
    def has_8_bits(self) -> bool:
        return any(isinstance(each, Tensor) and each.dtype in (FP8, FP8_GRADIENT) for each in self.arguments)


class Target:
    """A card, as far as Triton's compiler needs it."""

    def __init__(self, generation: int) -> None:
        self._generation = generation

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", self._generation, 32)

    def get_current_device(self) -> int:
        return self._generation  # what is compiled for one is kept apart from the others

    def get_current_stream(self, device: int) -> int:  # noqa: ARG002
        return 0


def shape_of(recipe: str, width: int, without: str = "") -> ModelShape:
    """A shape with the fewest layers that include every kind."""
    head = 128 if recipe == "fast" and width % 128 == 0 else 64
    return ModelShape(
        n_layer=2 if recipe == "fast" else 1,
        n_head=width // head,
        n_embd=width,
        vocab_size=50304,
        block_size=1024,
        recipe=recipe,
        without=without,
    )


def launches_of(shape: ModelShape, saving: tuple[str, ...] = (), fp8: tuple[str, ...] = ()) -> list[Launch]:
    """The launches of a forward and backward pass, an evaluation and a step."""
    config = TrainConfig(recipe=shape.recipe, without=shape.without)
    with torch.device("meta"), written_down() as launches:
        model = new_model(shape)
        fused: Fused = FusedFastGPT(model, saving, fp8) if isinstance(model, FastGPT) else FusedGPT(model, saving, fp8)
        optimizer = make_optimizer(model, config, torch.device("meta"), saving)
        windows = torch.empty((BATCH, shape.block_size + 1), dtype=torch.int64)
        inputs, targets = windows[:, :-1], windows[:, 1:]
        fused.gradients(inputs.contiguous(), targets.contiguous())  # as batches.py has them
        fused.finish()
        fused.sequence_losses(inputs, targets)  # as evaluate.py has them
        _step(optimizer)
        checksums(list(model.parameters()))
    return each_once(launches)


def _step(optimizer: torch.optim.Optimizer) -> None:
    """torch's own optimizers have no Triton kernels."""
    found_inf = torch.zeros(())
    if isinstance(optimizer, Bf16AdamW):
        optimizer.found_inf = found_inf
        optimizer.step()
    elif isinstance(optimizer, MuonAndAdamW):
        for stack in optimizer.stacks:
            stack.step(1.0, 1.0, found_inf, replace(optimizer._settings, dtype=torch.bfloat16, kernels=True))


@contextmanager
def written_down() -> Iterator[list[Launch]]:
    """Inside this context, no thread launches a kernel: the list records the calls."""
    launches: list[Launch] = []

    def write_down(kernel: Any, *arguments: object, grid: object, warmup: bool, **options: object) -> None:  # noqa: ARG001
        launches.append(Launch(kernel, arguments, options))

    run = JITFunction.run
    JITFunction.run = write_down
    try:
        yield launches
    finally:
        JITFunction.run = run


def each_once(launches: Iterable[Launch]) -> list[Launch]:
    """In order, without those that compile to the same code."""
    return list({code_of(each): each for each in launches}.values())


def code_of(launch: Launch) -> tuple[object, ...]:
    """What Triton compiles for: types, whether addresses and sizes are multiples of 16, and all constants."""
    kinds = tuple(
        _kind(each, aligned=not parameter.do_not_specialize_on_alignment)
        for each, parameter in zip(launch.arguments, launch.kernel.params, strict=False)
    )
    return launch.kernel, kinds, tuple(sorted(launch.options.items()))


def _kind(value: object, *, aligned: bool) -> object:
    if isinstance(value, Tensor):
        return value.dtype, aligned and value.data_ptr() % 16 == 0
    if isinstance(value, int):
        return value == 1, value % 16 == 0, value.bit_length() > 31
    return type(value)


def all_kernels(width: int, without: str) -> list[Launch]:
    """The kernels of both recipes."""
    launches = [
        *launches_of(shape_of("gpt2", width)),
        *launches_of(shape_of("gpt2", width), ("activation", "averages")),
        *launches_of(shape_of("fast", width)),
    ]
    if without:
        launches += launches_of(shape_of("fast", width, without))
    return each_once(launches)


def kernels_with_8_bits(width: int) -> list[Launch]:
    """The 8-bit kernels, for cards that support them."""
    launches = [each for recipe in ("gpt2", "fast") for each in launches_of(shape_of(recipe, width), fp8=PRODUCTS)]
    return each_once(each for each in launches if each.has_8_bits)


def attention_kernels() -> list[Launch]:
    """As both recipes have it: queries, keys and values in one row."""
    with torch.device("meta"), written_down() as launches:
        for head in TILES:
            packed = torch.empty((BATCH, 1024, 3, 2, head), dtype=torch.bfloat16)
            q, k, v = (each.transpose(1, 2) for each in packed.unbind(2))
            out = torch.empty((BATCH, 1024, 2, head), dtype=torch.bfloat16).transpose(1, 2)
            attention_backward(out, (q, k, v), out, torch.empty((BATCH, 2, 1024)), 1.0)
    return each_once(launches)


def compiled(launch: Launch, width: int, generation: int) -> dict[str, Any]:
    kernel = launch.kernel.warmup(*launch.arguments, grid=(1,), **launch.options)
    usage = _usage(kernel.asm["cubin"])
    return {
        "kernel": f"{launch.kernel.module.rsplit('.', 1)[1]}.{launch.kernel.__name__}",
        "generation": generation,
        "width": width,
        "options": launch.options,
        "8 bits": launch.has_8_bits,
        "shared": kernel.metadata.shared,
        "registers": usage["REG"],
        "spilled": usage["STACK"] + usage["LOCAL"],  # bytes of each thread
        "later": sorted(set(HOPPER.findall(kernel.asm["ptx"]))),
    }


def _usage(cubin: bytes) -> dict[str, int]:
    """The kernel's resources, as reported by the assembler."""
    tool = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        said = subprocess.run([tool, "-res-usage", file.name], check=True, capture_output=True, text=True).stdout
    return {name: int(value) for name, value in re.findall(r"(REG|STACK|LOCAL):(\d+)", said)}


def main(generations: str, widths: str, without: str = "") -> None:
    for width in map(int, widths.split(",")):
        launches, with_8_bits = all_kernels(width, without), kernels_with_8_bits(width)
        cards = [int(each) for each in generations.split(",")]
        later = sorted({max(each, ADA) for each in cards})
        todo = [*((launches, each) for each in cards), *((with_8_bits, each) for each in later)]
        for some, generation in [*todo, (attention_kernels(), HOPPERS)]:
            triton.runtime.driver.set_active(Target(generation))
            for each in some:
                print(json.dumps(compiled(each, width, generation)), flush=True)


if __name__ == "__main__":
    assert os.environ.get("TRITON_INTERPRET") != "1"
    main(*sys.argv[1:])
