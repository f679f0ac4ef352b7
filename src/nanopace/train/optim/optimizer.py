"""The table of optimizers, and what they all share. A new one is a module next to this one and a row here.

The optimizer state is allocated before the first step. So a run that does not fit in memory fails at the start, and a
checkpoint's layout is known before the first one is saved.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn

from nanopace.config import TrainConfig
from nanopace.knob_values import ingredients
from nanopace.memory_ladder import averages_bytes
from nanopace.train.models.gpt2 import ModelShape
from nanopace.train.models.recipes import meta_model
from nanopace.train.optim.adamw import ADAMW_STATE, adamw_for_all
from nanopace.train.optim.bf16_adamw import bf16_adamw
from nanopace.train.optim.groups import PEAK, Groups, parameter_groups
from nanopace.train.optim.muon import MUON_STATE, muon_and_adamw


class OptimizerKind(NamedTuple):
    """How to make one, and its state per weight, by the names in checkpoints."""

    make: Callable[[Groups, TrainConfig, torch.device], torch.optim.Optimizer]
    state: tuple[str, ...]


OPTIMIZERS = {
    "adamw": OptimizerKind(adamw_for_all, ADAMW_STATE),
    "bf16_adamw": OptimizerKind(bf16_adamw, ADAMW_STATE),
    "muon": OptimizerKind(muon_and_adamw, (*ADAMW_STATE, *MUON_STATE)),
}
# Prefixes of an optimizer's tensors in a checkpoint, as in "exp_avg.<weight>".
STATE_PREFIXES = tuple(sorted({f"{what}." for kind in OPTIMIZERS.values() for what in kind.state}))


def optimizer_name(config: TrainConfig, memory_steps: Collection[str] = ()) -> str:
    if "muon" in ingredients(config.recipe, config.without):
        return "muon"
    # Recipe fast does not use the memory step that keeps averages in bfloat16.
    return "bf16_adamw" if config.recipe == "gpt2" and averages_bytes(memory_steps) == 2 else "adamw"


def make_optimizer(
    model: nn.Module, config: TrainConfig, device: torch.device, memory_steps: Collection[str] = ()
) -> torch.optim.Optimizer:
    """The recipe's optimizer, with the memory steps that concern optimizers."""
    return OPTIMIZERS[optimizer_name(config, memory_steps)].make(parameter_groups(model, config), config, device)


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Set the current `rate`; groups with their own peak keep their ratio to learning_rate."""
    base = optimizer.defaults["lr"]
    for group in optimizer.param_groups:
        own = group[PEAK] * (rate / base if base else 0.0) if PEAK in group else rate
        if isinstance(group["lr"], Tensor):  # a CUDA graph reads it there
            group["lr"].fill_(own)
        else:
            group["lr"] = own


def optimizer_tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimizer state, by "exp_avg.<weight>": the tensors themselves, not copies."""
    return {
        f"{what}.{name}": value
        for name, weight in model.named_parameters()
        for what, value in optimizer.state[weight].items()
    }


@torch.no_grad()
def restore_optimizer(model: nn.Module, optimizer: torch.optim.Optimizer, saved: Mapping[str, Tensor]) -> None:
    own = optimizer_tensors(model, optimizer)
    assert own.keys() == saved.keys()
    for name, value in own.items():
        _copy_into(value, saved[name])


def _copy_into(into: Tensor, whole: Tensor) -> None:
    """Copy; if the target is sharded over several ranks, only this rank's part."""
    if dist.is_initialized():
        from torch.distributed.tensor import DTensor, distribute_tensor

        if isinstance(into, DTensor):
            whole = distribute_tensor(whole, into.device_mesh, into.placements, src_data_rank=None).to_local()
            into = into.to_local()
    into.copy_(whole)


def state_shapes(shape: ModelShape) -> dict[str, torch.Size]:
    """The shapes of such a model's optimizer state, by the names of `optimizer_tensors`; nothing is allocated."""
    model = meta_model(shape)
    # Only these knobs matter; the others would have to be consistent.
    config = TrainConfig(recipe=shape.recipe, without=shape.without)
    if optimizer_name(config) == "adamw":  # making one would import torch's compiler: 1.5 s
        weights = {name: each.shape for name, each in model.named_parameters()}
        scalar = torch.Size()
        return {
            f"{what}.{name}": scalar if what == "step" else weights[name] for name in weights for what in ADAMW_STATE
        }
    optimizer = make_optimizer(model, config, torch.device("meta"))
    return {name: each.shape for name, each in optimizer_tensors(model, optimizer).items()}
