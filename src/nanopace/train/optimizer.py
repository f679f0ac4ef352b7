"""AdamW with nanoGPT's two groups: matrices and tables decay, norms and biases do not.

Its averages exist before the first step. So what does not fit into memory fails at the start and not after it, and a
checkpoint's layout is known before there is one.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from nanopace.config import TrainConfig


def make_optimizer(model: nn.Module, config: TrainConfig, device: torch.device) -> torch.optim.AdamW:
    weights = [each for each in model.parameters() if each.requires_grad]
    groups = [
        {"params": [each for each in weights if each.dim() >= 2], "weight_decay": config.weight_decay},
        {"params": [each for each in weights if each.dim() < 2], "weight_decay": 0.0},
    ]
    fused = device.type in ("cuda", "cpu")  # one kernel over all weights, instead of a dozen passes
    optimizer = torch.optim.AdamW(groups, lr=config.learning_rate, betas=(config.beta1, config.beta2), fused=fused)
    for each in weights:
        optimizer.state[each] = {
            "step": torch.zeros((), dtype=torch.float32, device=device if device.type == "cuda" else "cpu"),
            "exp_avg": torch.zeros_like(each, memory_format=torch.preserve_format),
            "exp_avg_sq": torch.zeros_like(each, memory_format=torch.preserve_format),
        }
    return optimizer


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = rate


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
        value.copy_(saved[name])
