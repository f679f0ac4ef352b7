"""AdamW that remembers in bfloat16: a step of the ladder that trades nothing but rounding for memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor


class LeanAdamW(torch.optim.Optimizer):
    """With torch's groups and names. Like torch's fused one, it reads `found_inf` and leaves all as it is."""

    found_inf: Tensor

    def __init__(self, groups: Iterable[dict[str, Any]], *, lr: float, betas: tuple[float, float], seed: int) -> None:
        super().__init__(groups, {"lr": lr, "betas": betas, "weight_decay": 0.0, "fused": True})
        self._seed = seed

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        from nanopace.train.kernels.adamw import adamw

        assert closure is None
        number = 0
        for group in self.param_groups:
            for weight in group["params"]:
                state = self.state[weight]
                state["step"] += 1 - self.found_inf
                adamw(
                    weight,
                    weight.grad,
                    state["exp_avg"],
                    state["exp_avg_sq"],
                    state["step"],
                    self.found_inf,
                    rate=group["lr"],
                    decay=group["weight_decay"],
                    betas=group["betas"],
                    seed=self._seed + (number << 20),  # each weight draws its own numbers
                )
                number += 1
