"""Forward and backward of one micro-batch, which adds to the gradients.

Either with torch: the model, compiled or not, under autocast and with autograd's gradients. Or with our own kernels; if
launching them takes longer than running them, as a CUDA graph: one launch for all.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor

from nanopace.errors import Message
from nanopace.train.out_of_memory import attempt, make_room

if TYPE_CHECKING:
    from nanopace.train.fused.model import Fused

_LAUNCH_BOUND = 0.7  # share of a micro-step: if launching takes less, the card never waits

Loss = Callable[[Tensor, Tensor], Tensor]


class Passes(Protocol):
    """How a micro-batch becomes gradients."""

    def __call__(self, tokens: Tensor, targets: Tensor, count: int, meet: Callable[[], object] | None = None) -> Tensor:
        """The mean loss of one of `count` micro-batches; adds its gradient, divided by `count`. `meet` is called before
        the ranks wait for each other."""

    def zero_grad(self) -> None:
        """Clear all gradients, in the model and in our own buffers."""

    def finish(self) -> None:
        """After a step's last micro-batch, give the weights their gradients."""

    def refresh_copies(self) -> None:
        """Update the copies used in products after the weights have changed."""

    def climb(self) -> str | None:
        """When memory is full, take the next memory step and return its name; None if there is none."""

    def capture_graph(self, tokens: Tensor, targets: Tensor, count: int) -> str | None:
        """After a first pass, capture later ones of the same shape as one launch if that is faster. Returns why."""


class PlainPasses:
    def __init__(
        self,
        loss: Loss,
        optimizer: torch.optim.Optimizer,
        scaler: torch.amp.GradScaler,
        autocast: AbstractContextManager[object],
        algorithms: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """`algorithms` may restrict those that torch uses."""
        self._loss, self._optimizer, self._scaler, self._autocast = loss, optimizer, scaler, autocast
        self._algorithms = algorithms

    def __call__(self, tokens: Tensor, targets: Tensor, count: int, meet: Callable[[], object] | None = None) -> Tensor:
        with self._algorithms():
            with self._autocast:
                loss = self._loss(tokens, targets)
            if meet is not None:
                meet()
            self._scaler.scale(loss / count).backward()
        return loss.detach()

    def zero_grad(self) -> None:
        self._optimizer.zero_grad(set_to_none=True)

    def finish(self) -> None:
        pass

    def refresh_copies(self) -> None:
        pass

    def climb(self) -> None:
        return None

    def capture_graph(self, tokens: Tensor, targets: Tensor, count: int) -> str | None:  # noqa: ARG002
        return None


class FusedPasses:
    def __init__(self, model: Fused) -> None:
        self._model = model
        self._graph: torch.cuda.CUDAGraph | None = None
        self._recorded: tuple[torch.Size, int] | None = None
        self._tokens = self._targets = self._loss = torch.empty(0)

    def __call__(self, tokens: Tensor, targets: Tensor, count: int, meet: Callable[[], object] | None = None) -> Tensor:
        assert meet is None, "kernels of our own train on one card"
        if self._graph is None or self._recorded != (tokens.shape, count):
            return self._run(tokens, targets, count)
        self._tokens.copy_(tokens)
        self._targets.copy_(targets)
        self._graph.replay()
        return self._loss

    def zero_grad(self) -> None:
        self._model.zero_grad()

    def finish(self) -> None:
        self._model.finish()

    def refresh_copies(self) -> None:
        self._model.refresh_copies()

    def climb(self) -> str | None:
        self._graph = self._recorded = None  # a graph holds its own memory
        return self._model.climb()

    def capture_graph(self, tokens: Tensor, targets: Tensor, count: int) -> str | None:
        self._graph = self._recorded = None
        if tokens.device.type != "cuda" or self._model.stream is not None:
            return None  # copies come and go in other streams
        launching, running = self._time(tokens, targets, count)
        if launching < _LAUNCH_BOUND * running:
            return None
        make_room(tokens.device)  # a graph needs its own memory
        self._tokens, self._targets = tokens.clone(), targets.clone()
        graph = torch.cuda.CUDAGraph()
        if attempt(lambda: self._capture(graph, count)) is None:
            return None  # no room for it
        self._graph, self._recorded = graph, (tokens.shape, count)
        return Message(
            "each micro-step runs as a CUDA graph: launching its kernels took {launching:.1f} of {running:.1f} ms",
            launching=launching,
            running=running,
        )

    def _run(self, tokens: Tensor, targets: Tensor, count: int) -> Tensor:
        return self._model.gradients(tokens, targets, 1 / count)

    def _capture(self, graph: torch.cuda.CUDAGraph, count: int) -> bool:
        with torch.cuda.graph(graph):
            self._loss = self._run(self._tokens, self._targets, count)
        return True

    def _time(self, tokens: Tensor, targets: Tensor, count: int) -> tuple[float, float]:
        """The host's time to launch a pass, and the time until the card has finished it, in ms."""
        torch.cuda.synchronize(tokens.device)
        begin = time.perf_counter()
        self._run(tokens, targets, count)
        launched = time.perf_counter()
        torch.cuda.synchronize(tokens.device)
        return (launched - begin) * 1000, (time.perf_counter() - begin) * 1000
