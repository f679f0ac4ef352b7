"""torch's own AdamW, with its averages allocated from the start."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from nanopace.config import TrainConfig
from nanopace.train.optim.groups import PEAK, Group, Groups

ADAMW_AVERAGES = ("exp_avg", "exp_avg_sq")
ADAMW_STATE = ("step", *ADAMW_AVERAGES)  # its state per weight, by torch's names


def adamw_for_all(groups: Groups, config: TrainConfig, device: torch.device) -> torch.optim.AdamW:
    """AdamW for the matrices, too, with learning_rate itself as their peak."""
    matrices = {"params": [*groups.matrices.values()], PEAK: config.learning_rate, "weight_decay": config.weight_decay}
    return adamw([*groups.adamw, matrices] if groups.matrices else groups.adamw, config, device, groups.eps)


def adamw(groups: Sequence[Group], config: TrainConfig, device: torch.device, eps: float) -> torch.optim.AdamW:
    fused = device.type in ("cuda", "cpu")  # one kernel over all weights instead of a dozen passes
    betas = (config.beta1, config.beta2)
    optimizer = torch.optim.AdamW(groups, lr=config.learning_rate, betas=betas, eps=eps, fused=fused)
    for each in (weight for group in groups for weight in group["params"]):
        optimizer.state[each] = {
            "step": torch.zeros((), dtype=torch.float32, device=device if device.type == "cuda" else "cpu"),
            "exp_avg": torch.zeros_like(each, memory_format=torch.preserve_format),
            "exp_avg_sq": torch.zeros_like(each, memory_format=torch.preserve_format),
        }
    return optimizer
