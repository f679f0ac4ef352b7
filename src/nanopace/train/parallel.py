"""One model on several devices: DDP, where each holds all of it, and FSDP, where each holds a part.

Both are torch's. DDP adds up gradients while the last micro-batch is still on its way back; FSDP also shards weights,
gradients and averages, and gathers a layer's weights when their turn comes. Micro-batches before the last keep their
gradients to themselves (`quietly`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn

from nanopace.config import TrainConfig
from nanopace.train.kernels.fp8 import pick_products
from nanopace.train.loop.evaluate import Losses
from nanopace.train.models.fast import FastGPT
from nanopace.train.models.gpt2 import GPT
from nanopace.train.plan.device import pick_kernels
from nanopace.train.ranks import Ranks
from nanopace.train.warm_start import wait_for_the_compiler

if TYPE_CHECKING:
    from nanopace.train.fused.gpt2 import Fused

Loss = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True, slots=True)
class Spread:
    """How a model is called, wherever its weights lie."""

    loss: Loss
    sequence_losses: Losses
    fused: Fused | None = None  # kernels of our own, which take the place of `loss`
    quietly: Callable[[], AbstractContextManager[object]] = nullcontext  # inside, gradients stay on their rank
    rehearsing: Callable[[], AbstractContextManager[object]] = nullcontext  # inside, they are thrown away
    compiled: bool = False
    sharded: bool = False


def spread(model: GPT, config: TrainConfig, ranks: Ranks, device: torch.device, saving: Collection[str] = ()) -> Spread:
    """Compile and distribute. `model` itself keeps its names and stays what is saved. `saving`: steps of the ladder."""
    if config.compile:
        wait_for_the_compiler()
    if config.parallel == "fsdp" and ranks.launched:
        return _sharded(model, config, ranks, device)
    if pick_kernels(config, model.shape, device, ranks.size)[0] == "fused":
        fused = _fused(model, config, device, saving)
        return Spread(model, fused.sequence_losses, fused)
    # Shapes never change, so both are compiled for these alone.
    loss: nn.Module = torch.compile(model, dynamic=False) if config.compile else model  # type: ignore[assignment]
    losses = torch.compile(model.sequence_losses, dynamic=False) if config.compile else model.sequence_losses
    if ranks.size == 1:
        return Spread(loss, losses, compiled=config.compile)
    from torch.nn.parallel import DistributedDataParallel

    copies = DistributedDataParallel(
        loss,
        device_ids=[device.index] if device.type == "cuda" else None,
        gradient_as_bucket_view=True,  # no second copy of the gradients
    )
    return Spread(copies, losses, quietly=copies.no_sync, rehearsing=copies.no_sync, compiled=config.compile)


def _fused(model: GPT, config: TrainConfig, device: torch.device, saving: Collection[str]) -> Fused:
    from nanopace.train.fused.fast import FusedFastGPT
    from nanopace.train.fused.gpt2 import FusedGPT  # it needs triton

    rows = config.batch_size * config.block_size
    fp8 = pick_products(model.shape, rows, device)[0] if config.fp8 else ()
    if isinstance(model, FastGPT):
        return FusedFastGPT(model, saving, fp8)
    return FusedGPT(model, saving, fp8)


def _sharded(model: GPT, config: TrainConfig, ranks: Ranks, device: torch.device) -> Spread:
    """Layer by layer, so that one layer at a time is whole on a card."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard, register_fsdp_forward_method

    mesh = init_device_mesh(device.type, (ranks.size,))
    half = config.dtype == "bfloat16" and device.type == "cuda"
    # Weights travel in bfloat16, which is what they are multiplied in; gradients are added up in float32.
    policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32) if half else MixedPrecisionPolicy()
    for block in cast(nn.ModuleList, model.transformer["h"]):
        if config.compile:
            block.compile(dynamic=False)
        fully_shard(block, mesh=mesh, mp_policy=policy)
    whole = cast(Any, fully_shard(model, mesh=mesh, mp_policy=policy))
    register_fsdp_forward_method(whole, "sequence_losses")

    @contextmanager
    def quietly() -> Iterator[None]:
        whole.set_requires_gradient_sync(False)
        try:
            yield
        finally:
            whole.set_requires_gradient_sync(True)

    # What is kept quiet stays in FSDP's own buffers, where nobody can throw it away: a rehearsal meets the others.
    return Spread(whole, whole.sequence_losses, quietly=quietly, compiled=config.compile, sharded=True)
