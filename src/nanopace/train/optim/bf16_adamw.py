"""AdamW with averages in bfloat16: a memory step whose only cost is rounding."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from nanopace.config import TrainConfig
from nanopace.train.optim.groups import Groups


def bf16_adamw(groups: Groups, config: TrainConfig, device: torch.device) -> Bf16AdamW:
    betas = (config.beta1, config.beta2)
    optimizer = Bf16AdamW(groups.adamw, lr=config.learning_rate, betas=betas, seed=config.seed)
    for each in (weight for group in groups.adamw for weight in group["params"]):
        optimizer.state[each] = {
            "step": torch.zeros((), dtype=torch.float32, device=device),
            "exp_avg": torch.zeros_like(each, dtype=torch.bfloat16),
            "exp_avg_sq": torch.zeros_like(each, dtype=torch.bfloat16),
        }
    return optimizer


class Bf16AdamW(torch.optim.Optimizer):
    """Uses torch's groups and names. Like torch's fused AdamW, it changes nothing if `found_inf` is 1."""

    found_inf: Tensor

    def __init__(self, groups: Iterable[dict[str, Any]], *, lr: float, betas: tuple[float, float], seed: int) -> None:
        super().__init__(groups, {"lr": lr, "betas": betas, "weight_decay": 0.0, "fused": True})
        self._group_of = {weight: group for group in self.param_groups for weight in group["params"]}
        # Each weight draws its own random numbers.
        self._seeds = {weight: seed + (number << 20) for number, weight in enumerate(self._group_of)}
        device = next(iter(self._group_of)).device
        for group in self.param_groups:
            group["lr"] = torch.tensor(lr, device=device)  # torch's own allows this, too; a CUDA graph can read it

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        assert closure is None
        self.update(self._group_of)

    @torch.no_grad()
    def update(self, weights: Iterable[nn.Parameter]) -> None:
        """Update only these weights, with their current gradients."""
        from nanopace.train.kernels.adamw import adamw

        for weight in weights:
            assert weight.grad is not None
            group, state = self._group_of[weight], self.state[weight]
            state["step"] += 1 - self.found_inf
            adamw(
                weight,
                weight.grad,
                state["exp_avg"],
                state["exp_avg_sq"],
                state["step"],
                self.found_inf,
                group["lr"],
                decay=group["weight_decay"],
                betas=group["betas"],
                seed=self._seeds[weight],
            )
