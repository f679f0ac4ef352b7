"""Every kernel, compiled for cards that need not be here: Triton brings the assembler of all of them along.

A process of its own, because Triton must not interpret in it. What is compiled is what whole passes and steps launch:
they run on torch's device meta, with the launches written down. Prints a JSON line for each kernel.

    python tests/train/kernels/targets.py 80,86,89,90,120 384,768,1280,1600,4096        # all: ten minutes on two cores
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget

from nanopace.config import TrainConfig
from nanopace.train.fast_model import FastGPT
from nanopace.train.fused import Again, Fused, FusedGPT
from nanopace.train.fused_fast import FusedFastGPT
from nanopace.train.lean_adamw import LeanAdamW
from nanopace.train.model import ModelShape
from nanopace.train.muon import MuonAndAdamW
from nanopace.train.optimizer import make_optimizer
from nanopace.train.prebuild import Launch, each_once, written_down
from nanopace.train.recipes import new_model

HEADS = {"gpt2": 64, "fast": 128}  # as wide
LAYERS = 4


class Target:
    """A card, as far as Triton's compiler asks."""

    def __init__(self, generation: int) -> None:
        self._generation = generation

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", self._generation, 32)

    def get_current_device(self) -> int:
        return self._generation  # what is compiled for one is kept apart from the others

    def get_current_stream(self, device: int) -> int:  # noqa: ARG002
        return 0


def launches_of(
    recipe: str, width: int, *, saving: tuple[str, ...] = (), without: str = "", layers: int = LAYERS
) -> list[Launch]:
    """Of a whole pass there and back, an evaluation and a step."""
    shape = ModelShape(
        n_layer=layers,
        n_head=width // HEADS[recipe] or 1,
        n_embd=width,
        vocab_size=50304,
        block_size=1024,
        recipe=recipe,
        without=without,
    )
    config = TrainConfig(recipe=recipe, without=without, batch_size=8)
    with torch.device("meta"):
        model = new_model(shape)
        again = Again.after(saving)
        fused: Fused = FusedFastGPT(model, again) if isinstance(model, FastGPT) else FusedGPT(model, again)
        windows = torch.empty((8, 1025), dtype=torch.int64)
        inputs, targets = windows[:, :-1], windows[:, 1:]
        optimizer = make_optimizer(model, config, torch.device("meta"), lean="averages" in saving)
        with written_down() as launches:
            fused.gradients(inputs.contiguous(), targets.contiguous())
            fused.sequence_losses(inputs, targets)
            _step(optimizer)
    return each_once(launches)


def _step(optimizer: torch.optim.Optimizer) -> None:
    """torch's own optimizers have no kernels of Triton's."""
    found_inf = torch.zeros(())
    if isinstance(optimizer, LeanAdamW):
        optimizer.found_inf = found_inf
        optimizer.step()
    elif isinstance(optimizer, MuonAndAdamW):
        for stack in optimizer._stacks:
            stack.step(1.0, 1.0, found_inf, replace(optimizer._how, dtype=torch.bfloat16, kernels=True))


def compiled(launch: Launch, width: int, generation: int) -> dict[str, Any]:
    kernel = launch.kernel.warmup(*launch.arguments, grid=(1,), **launch.options)
    usage = _usage(kernel.asm["cubin"])
    return {
        "kernel": f"{launch.kernel.module.rsplit('.', 1)[1]}.{launch.kernel.__name__}",
        "generation": generation,
        "width": width,
        "options": {name: value for name, value in launch.options.items() if not isinstance(value, float)},
        "shared": kernel.metadata.shared,
        "warps": kernel.metadata.num_warps,
        "registers": usage["REG"],
        "spilled": usage["STACK"] + usage["LOCAL"],  # bytes a thread
        "hopper": sorted(set(re.findall(r"wgmma|cp\.async\.bulk|mbarrier|barrier\.cluster|setmaxnreg|tcgen05", kernel.asm["ptx"]))),
    }


def _usage(cubin: bytes) -> dict[str, int]:
    """What the assembler gave it."""
    tool = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        said = subprocess.run([tool, "-res-usage", file.name], check=True, capture_output=True, text=True).stdout
    return {name: int(value) for name, value in re.findall(r"(REG|STACK|LOCAL):(\d+)", said)}


def kernels(width: int) -> Iterator[Launch]:
    """Of both recipes, with all that they can be told to do without."""
    yield from launches_of("gpt2", width, saving=("activation", "averages"))
    yield from launches_of("gpt2", width)
    yield from launches_of("fast", width)
    yield from launches_of("fast", width, without="rope,relu2,normuon", layers=1)


def main(generations: str, widths: str, only: str = "") -> None:
    for width in map(int, widths.split(",")):
        launches = [each for each in each_once(kernels(width)) if only in repr(each.kernel)]
        for generation in map(int, generations.split(",")):
            triton.runtime.driver.set_active(Target(generation))
            for each in launches:
                print(json.dumps(compiled(each, width, generation)), flush=True)


if __name__ == "__main__":
    assert "TRITON_INTERPRET" not in os.environ
    main(*sys.argv[1:])
