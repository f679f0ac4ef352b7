"""Chooses the device that draws a model's initial weights, wherever the weights themselves are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

_RANDOM = (nn.init.normal_, nn.init.uniform_, nn.init.kaiming_uniform_)  # all that torch's layers and ours call


class InitOnDevice(TorchFunctionMode):
    """Inside this context, weights are drawn on `device` one at a time, with the values that device gives. With None
    they are not initialised: on the meta device, torch would import its compiler for that, which takes two seconds."""

    def __init__(self, device: torch.device | None) -> None:
        super().__init__()
        self._device = device

    def __torch_function__(
        self, func: Callable[..., Any], types: object, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        named = dict(kwargs or {})
        if func not in _RANDOM:
            return func(*args, **named)
        weight = named.pop("tensor") if "tensor" in named else args[0]
        if self._device is None:
            return weight
        drawn = func(torch.empty_like(weight, device=self._device, requires_grad=False), *args[1:], **named)
        with torch.no_grad():
            return weight.copy_(drawn)
