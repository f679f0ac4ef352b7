"""The optimizer of each recipe: AdamW with nanoGPT's two groups, or Muon beside AdamW.

Its averages exist before the first step. So what does not fit into memory fails at the start and not after it, and a
checkpoint's layout is known before there is one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from nanopace.config import TrainConfig
from nanopace.knob_values import ingredients
from nanopace.train.models.gpt2 import ModelShape
from nanopace.train.models.recipes import EPS, HEAD_RATE, SCALAR_RATE, TABLE_RATE, TUNED_WIDTH, outline
from nanopace.train.optim.bf16_adamw import LeanAdamW
from nanopace.train.optim.muon import Muon, MuonAndAdamW

PEAK = "peak"  # of a group whose rate is not learning_rate itself


def make_optimizer(
    model: nn.Module, config: TrainConfig, device: torch.device, *, lean: bool = False
) -> torch.optim.Optimizer:
    """`lean`: AdamW's averages are kept in bfloat16."""
    if config.recipe != "gpt2":
        return _fast(model, config, device)
    weights = [each for each in model.parameters() if each.requires_grad]
    groups = [
        {"params": [each for each in weights if each.dim() >= 2], "weight_decay": config.weight_decay},
        {"params": [each for each in weights if each.dim() < 2], "weight_decay": 0.0},
    ]
    if lean:
        return _lean(groups, config, device)
    return _adamw(groups, config, device)


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """`rate` is learning_rate's now; groups with a peak of their own keep their ratio to it."""
    base = optimizer.defaults["lr"]
    for group in optimizer.param_groups:
        own = group[PEAK] * (rate / base if base else 0.0) if PEAK in group else rate
        if isinstance(group["lr"], Tensor):  # where a CUDA graph reads it
            group["lr"].fill_(own)
        else:
            group["lr"] = own


def optimizer_tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Everything that the optimizer remembers, by "exp_avg.<weight>": the tensors themselves, not copies."""
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
        _take(value, saved[name])


def _take(into: Tensor, whole: Tensor) -> None:
    """Copy; what lies in parts on several ranks takes this rank's."""
    if dist.is_initialized():
        from torch.distributed.tensor import DTensor, distribute_tensor

        if isinstance(into, DTensor):
            whole = distribute_tensor(whole, into.device_mesh, into.placements, src_data_rank=None).to_local()
            into = into.to_local()
    into.copy_(whole)


def remembered(shape: ModelShape) -> dict[str, torch.Size]:
    """What the optimizer of such a model remembers, by the names of `optimizer_tensors`; nothing is allocated."""
    model = outline(shape)
    # Only these decide it; the others would have to fit together.
    config = TrainConfig(recipe=shape.recipe, without=shape.without)
    optimizer = make_optimizer(model, config, torch.device("meta"))
    return {name: each.shape for name, each in optimizer_tensors(model, optimizer).items()}


def _adamw(
    groups: Sequence[dict[str, Any]], config: TrainConfig, device: torch.device, eps: float = 1e-8
) -> torch.optim.AdamW:
    fused = device.type in ("cuda", "cpu")  # one kernel over all weights, instead of a dozen passes
    betas = (config.beta1, config.beta2)
    optimizer = torch.optim.AdamW(groups, lr=config.learning_rate, betas=betas, eps=eps, fused=fused)
    for each in (weight for group in groups for weight in group["params"]):
        optimizer.state[each] = {
            "step": torch.zeros((), dtype=torch.float32, device=device if device.type == "cuda" else "cpu"),
            "exp_avg": torch.zeros_like(each, memory_format=torch.preserve_format),
            "exp_avg_sq": torch.zeros_like(each, memory_format=torch.preserve_format),
        }
    return optimizer


def _lean(groups: Sequence[dict[str, Any]], config: TrainConfig, device: torch.device) -> LeanAdamW:
    optimizer = LeanAdamW(groups, lr=config.learning_rate, betas=(config.beta1, config.beta2), seed=config.seed)
    for each in (weight for group in groups for weight in group["params"]):
        optimizer.state[each] = {
            "step": torch.zeros((), dtype=torch.float32, device=device),
            "exp_avg": torch.zeros_like(each, dtype=torch.bfloat16),
            "exp_avg_sq": torch.zeros_like(each, dtype=torch.bfloat16),
        }
    return optimizer


def _fast(model: nn.Module, config: TrainConfig, device: torch.device) -> torch.optim.Optimizer:
    has = ingredients(config.recipe, config.without)
    named = {name: each for name, each in model.named_parameters() if each.requires_grad}
    matrices = {name: each for name, each in named.items() if name.startswith("transformer.h.") and each.dim() == 2}
    others = {name: each for name, each in named.items() if name not in matrices}
    groups = _groups(others, config)
    decay = {"weight_decay": config.weight_decay}
    if "muon" not in has:
        groups.append({"params": [*matrices.values()], PEAK: config.learning_rate, **decay})
        return _adamw(groups, config, device, EPS)
    stacks: dict[tuple[int, int], list[tuple[Tensor, int]]] = defaultdict(list)
    for name, each in matrices.items():
        count = 3 if name.endswith("c_attn.weight") else 1
        stacks[each.size(0) // count, each.size(1)].append((each, count))
    return MuonAndAdamW(
        {"lr": config.matrix_lr, PEAK: config.matrix_lr, **decay},
        [*stacks.values()],
        _adamw(groups, config, device, EPS),
        Muon(
            dtype=torch.bfloat16 if device.type == "cuda" else torch.float32,  # a CPU is slower in bfloat16
            normuon="normuon" in has,
            kernels=_takes_kernels(config, device),
        ),
    )


def _takes_kernels(config: TrainConfig, device: torch.device) -> bool:
    whole = config.parallel != "fsdp"  # no rank has more than a part of each weight there
    return device.type == "cuda" and config.fused and whole and find_spec("triton") is not None


def _groups(named: Mapping[str, Tensor], config: TrainConfig) -> list[dict[str, Any]]:
    """Tables, head and scalars: none decays, each has a peak of its own."""
    tables, head, scalars = [], [], []
    for name, each in named.items():
        if each.dim() < 2:
            scalars.append(each)
        elif name == "transformer.wte.weight":  # which is the head
            head.append(each)
        else:
            tables.append(each)
    width = (TUNED_WIDTH / config.n_embd) ** 0.5
    rates = ((tables, TABLE_RATE * width), (head, HEAD_RATE * width), (scalars, SCALAR_RATE))
    return [
        {"params": weights, PEAK: times * config.learning_rate, "weight_decay": 0.0}
        for weights, times in rates
        if weights
    ]
