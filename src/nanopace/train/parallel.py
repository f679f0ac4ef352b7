"""One model on several devices: with DDP each holds all of it, with FSDP a part.

Both are torch's. DDP adds up gradients during the last micro-batch's backward pass; FSDP also shards weights,
gradients and averages, and gathers each layer's weights just before they are needed. The earlier micro-batches do not
sync their gradients (`no_sync`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import nn

from nanopace.config import TrainConfig
from nanopace.train.fused.attention import attention_by
from nanopace.train.loop.parts import ParallelModel
from nanopace.train.models.fast import FastGPT
from nanopace.train.models.gpt2 import GPT
from nanopace.train.plan.run_plan import RunPlan
from nanopace.train.ranks import Ranks
from nanopace.train.warm_start import wait_for_the_compiler

if TYPE_CHECKING:
    from nanopace.train.fused.model import Fused


def parallelize(model: GPT, plan: RunPlan) -> ParallelModel:
    """Compile and distribute. `model` itself keeps its parameter names, and checkpoints save it."""
    config, ranks, device = plan.config, plan.ranks, plan.device
    if config.compile:
        wait_for_the_compiler()
    if config.parallel == "fsdp" and ranks.launched:
        return _sharded(model, config, ranks, device)
    if plan.kernels.value == "fused":
        fused = _fused(model, plan.memory_steps.value, plan.fp8.value)
        fused.attention = attention_by(plan.attention_kernel, fixed_order=config.deterministic)
        return ParallelModel(model, fused.sequence_losses, fused)
    # Shapes never change, so compile for fixed shapes.
    loss: nn.Module = torch.compile(model, dynamic=False) if config.compile else model  # type: ignore[assignment]
    losses = torch.compile(model.sequence_losses, dynamic=False) if config.compile else model.sequence_losses
    if ranks.size == 1:
        return ParallelModel(loss, losses, compiled=config.compile)
    from torch.nn.parallel import DistributedDataParallel

    copies = DistributedDataParallel(
        loss,
        device_ids=[device.index] if device.type == "cuda" else None,
        gradient_as_bucket_view=True,  # no second copy of the gradients
    )
    return ParallelModel(copies, losses, no_sync=copies.no_sync, rehearsing=copies.no_sync, compiled=config.compile)


def _fused(model: GPT, memory_steps: Collection[str], fp8: Collection[str]) -> Fused:
    from nanopace.train.fused.fast import FusedFastGPT
    from nanopace.train.fused.gpt2 import FusedGPT  # it needs triton

    if isinstance(model, FastGPT):
        return FusedFastGPT(model, memory_steps, fp8)
    return FusedGPT(model, memory_steps, fp8)


def _sharded(model: GPT, config: TrainConfig, ranks: Ranks, device: torch.device) -> ParallelModel:
    """Shard layer by layer, so that a card holds only one full layer at a time."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard, register_fsdp_forward_method

    mesh = init_device_mesh(device.type, (ranks.size,))
    half = config.dtype == "bfloat16" and device.type == "cuda"
    # Weights are sent in bfloat16, the precision of the products; gradients are summed in float32.
    policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32) if half else MixedPrecisionPolicy()
    for block in cast(nn.ModuleList, model.transformer["h"]):
        if config.compile:
            block.compile(dynamic=False)
        fully_shard(block, mesh=mesh, mp_policy=policy)
    whole = cast(Any, fully_shard(model, mesh=mesh, mp_policy=policy))
    register_fsdp_forward_method(whole, "sequence_losses")

    @contextmanager
    def no_sync() -> Iterator[None]:
        whole.set_requires_gradient_sync(False)
        try:
            yield
        finally:
            whole.set_requires_gradient_sync(True)

    # Unsynced gradients stay in FSDP's own buffers and cannot be dropped, so a rehearsal syncs.
    return ParallelModel(whole, whole.sequence_losses, no_sync=no_sync, compiled=config.compile, sharded=True)
