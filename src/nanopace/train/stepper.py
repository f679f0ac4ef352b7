"""What a step is made of: forward and backward of every micro-batch, and the update of the weights."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from nanopace.config import TrainConfig
from nanopace.train.bookkeeping import Bookkeeper
from nanopace.train.parts import Parts


class Stepper:
    """Nothing in here waits for the device."""

    def __init__(self, parts: Parts, books: Bookkeeper) -> None:
        self._parts, self._books, self._config = parts, books, parts.config
        self._parameters = [each for each in parts.model.parameters() if each.requires_grad]
        self.autocast = _autocast(parts.config, parts.device)

    def accumulate(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """Forward and backward of every micro-batch; the mean loss of all of them."""
        parts, count = self._parts, len(inputs)
        total = torch.zeros((), device=parts.device)
        for micro_inputs, micro_targets in zip(inputs, targets, strict=True):
            with self.autocast:
                loss = parts.loss(micro_inputs, micro_targets)
            parts.scaler.scale(loss / count).backward()
            total += loss.detach()
        return total / count

    def update(self) -> Tensor:
        """Clip, step, and forget the gradients. The norm before clipping; nan where nothing clips."""
        parts = self._parts
        norm = torch.full((), float("nan"), device=parts.device)
        if self._config.grad_clip:
            parts.scaler.unscale_(parts.optimizer)
            norm = torch.nn.utils.clip_grad_norm_(self._parameters, self._config.grad_clip)
        parts.scaler.step(parts.optimizer)
        parts.scaler.update()
        parts.optimizer.zero_grad(set_to_none=True)
        return norm

    def warm_up(self) -> None:
        """Compile and allocate before the first step, on tokens that mean nothing, and leave no trace of it."""
        parts, config = self._parts, self._config
        parts.listener.phase("compile")
        phase = "compile" if parts.loss is not parts.model else "startup"
        tokens = torch.zeros((config.batch_size, config.block_size), dtype=torch.long, device=parts.device)
        with torch.random.fork_rng(devices=[parts.device] if parts.device.type == "cuda" else []):
            with self.autocast:
                loss = parts.loss(tokens, tokens)
            parts.scaler.scale(loss).backward()
            parts.optimizer.zero_grad(set_to_none=True)
            parts.clock.mark(phase, parts.first_step, "training step").wait()
            parts.model.eval()
            with torch.no_grad(), self.autocast:
                parts.validation.warm_up()
            parts.model.train()
        parts.clock.mark(phase, parts.first_step, "evaluation").wait()
        self._books.settle()
        parts.listener.phase("step")


def _autocast(config: TrainConfig, device: torch.device) -> AbstractContextManager[object]:
    if config.dtype == "float32":
        return nullcontext()
    return torch.autocast(device.type, dtype=getattr(torch, config.dtype))
