"""Updates weights whose averages, and for the blocks' matrices the weights themselves, are in the host's memory.

Gradients and the copies that are multiplied stay on the card. After the last micro-batch of a step, everything else
comes to the card in pieces, is updated there by the same kernels as ever, and goes home: 12 bytes per weight each way,
once per step. The result is the same to the last bit.

AdamW's matrices can also be updated by the host's cores: then only gradients and new weights are on the bus, 4 bytes
each way. Whichever way was faster in a short trial is taken.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.utils import get_total_norm

from nanopace.hardware.memory import HOST_PIECE
from nanopace.train.host.arena import Arena, place_of
from nanopace.train.host.bus import Bus, Done
from nanopace.train.host.pipeline import Piece, Pipeline
from nanopace.train.models.recipes import block_matrices
from nanopace.train.optim.adamw import ADAMW_AVERAGES
from nanopace.train.optim.muon import MOMENTUM_NAME, MuonAndAdamW, Stack
from nanopace.train.private_torch import fused_adamw, multiply_all

if TYPE_CHECKING:
    from nanopace.train.fused.matrix import Matrix
    from nanopace.train.fused.model import Fused

_TRIAL = 6  # pieces


def arena_for(model: nn.Module, device: torch.device, *, muon: bool) -> Arena:
    """Memory for the blocks' matrices and all averages of matrices and tables; the matrices move into it, and
    everything else to the card."""
    matrices = block_matrices(model)
    size = 0
    for name, weight in model.named_parameters():
        if weight.dim() >= 2:
            tensors = (2 if muon else 3) if name in matrices else 2
            size += tensors * place_of(weight.shape)
    arena = Arena(size, device)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.data = arena.empty(weight).copy_(weight) if name in matrices else weight.to(device)
    return arena


@dataclass(frozen=True, slots=True)
class AdamWPart:
    """Some rows of a weight."""

    weight: Tensor  # at home on the host; on the card if there is nothing to refresh
    gradient: Tensor  # on the card
    averages: tuple[Tensor, Tensor]  # at home
    count: Tensor  # of steps, this one included
    group: Mapping[str, Any]
    refresh: Callable[[Tensor], None] | None  # the copy of these rows

    def on_card(self, found_inf: Tensor) -> Piece:
        def use(*copies: Tensor) -> None:
            weight, average, square = (self.weight, *copies)[-3:]
            fused_adamw(weight, self.gradient, average, square, self.count, self.group, found_inf)
            if self.refresh is not None:
                self.refresh(weight)

        return Piece(self.averages if self.refresh is None else (self.weight, *self.averages), use)


class HostStates:
    """What a step does after its last micro-batch."""

    def __init__(
        self,
        model: nn.Module,
        fused: Fused,
        optimizer: torch.optim.Optimizer,
        arena: Arena,
        bus: Bus,
        clip: float,
        *,
        by_cores: bool | None = None,
    ) -> None:
        """`by_cores`: whether the host's cores update AdamW's matrices; None: whichever is faster."""
        self._fused, self._optimizer, self._clip = fused, optimizer, clip
        self.arena, self.bus = arena, bus
        self._weights = [each for each in model.parameters() if each.requires_grad]
        self._away: dict[Tensor, Matrix] = {each.weights[0]: each for each in fused.matrices if each.away}
        if isinstance(optimizer, MuonAndAdamW):
            optimizer.take_apart(bus.device)
        _move_averages(optimizer, arena)
        self._parts = [*self._adamw_parts()]
        largest = max((each.gradient.numel() for each in self._parts), default=1)
        self._staging = Arena(2 * place_of(torch.Size((largest,))), bus.device)
        self._gradients = [self._staging.empty(torch.empty(largest, device="meta")) for _ in range(2)]
        self.by_cores = False
        pieces = [*self._updating(torch.zeros((), device=bus.device)), *self._copying()]
        self._pipeline = Pipeline(bus, max(each.bytes for each in pieces))
        self._pipeline.run(self._copying())
        self.by_cores = self._cores_are_faster() if by_cores is None else by_cores

    @property
    def host_bytes(self) -> int:
        return len(self.arena) + len(self._staging)

    @torch.no_grad()
    def update(self, loss: Tensor) -> Tensor:
        """Clip, step, zero the gradients and refresh the copies. Returns the norm before clipping. If that or the loss
        is not finite, the weights stay as they are."""
        self._fused.finish()
        self._pipeline.run(self._unfolding())
        gradients = [self.gradient_of(each) for each in self._weights]
        norm = get_total_norm(gradients)
        if self._clip:
            multiply_all(gradients, (self._clip / (norm + 1e-6)).clamp(max=1.0))
        found_inf = (~torch.isfinite(loss + norm)).float()
        self._update_small(found_inf)
        for count in {id(part.count): part.count for part in self._parts}.values():
            count += 1 - found_inf
        self._pipeline.run(self._updating(found_inf))
        self._fused.zero_grad()
        self._fused.refresh_copies()
        return norm

    @contextmanager
    def model_on_host(self) -> Iterator[None]:
        """Inside this context, all of the model is in the host's memory, and computes there."""
        on_card = [(each, each.data) for each in self._weights if each not in self._away]
        for weight, data in on_card:
            weight.data = data.cpu()
        try:
            yield
        finally:
            for weight, data in on_card:
                weight.data = data

    def gradient_of(self, weight: nn.Parameter) -> Tensor:
        gradient = self._away[weight].gradient if weight in self._away else weight.grad
        assert gradient is not None, "gradients are there from the beginning"
        return gradient

    # --- what has to be done ------------------------------------------------------------------------------------------

    def _adamw_parts(self) -> Iterator[AdamWPart]:
        for group in self._optimizer.param_groups:
            for weight in group["params"]:
                state = self._optimizer.state[weight]
                if weight.dim() < 2 or MOMENTUM_NAME in state:
                    continue
                gradient, matrix, rows = self.gradient_of(weight), self._away.get(weight), _rows(weight)
                for first in range(0, len(weight), rows):
                    some = slice(first, first + rows)
                    yield AdamWPart(
                        weight.detach()[some],
                        gradient[some],
                        (state["exp_avg"][some], state["exp_avg_sq"][some]),
                        state["step"],
                        group,
                        None if matrix is None else partial(matrix.copy_rows, first=first),
                    )

    def _updating(self, found_inf: Tensor) -> Iterator[Piece]:
        for_cores = [part for part in self._parts if self.by_cores and part.refresh is not None]
        if for_cores and not found_inf.item():
            yield from self._by_cores(for_cores)
        yield from (part.on_card(found_inf) for part in self._parts if not self.by_cores or part.refresh is None)
        if isinstance(self._optimizer, MuonAndAdamW):
            for stack in self._optimizer.stacks:
                yield self._muon_piece(self._optimizer, stack, found_inf)

    def _muon_piece(self, optimizer: MuonAndAdamW, stack: Stack, found_inf: Tensor) -> Piece:
        (weight,) = stack.weights
        matrix = self._away[weight]

        def use(copy: Tensor, momentum: Tensor) -> None:
            optimizer.step_away(stack, copy, matrix.gradient, momentum, found_inf)
            matrix.copy_rows(copy)

        return Piece((weight.detach(), stack.momentum), use)

    def _unfolding(self) -> Iterator[Piece]:
        """A norm's gradient needs the weight of the matrix behind it."""
        for weight, matrix in self._away.items():
            if matrix.norm is not None:
                yield Piece((weight.detach(),), matrix.unfold, changes=False)

    def _copying(self) -> Iterator[Piece]:
        for weight, matrix in self._away.items():
            yield Piece((weight.detach(),), matrix.copy_rows, changes=False)

    def _update_small(self, found_inf: Tensor) -> None:
        """Norms and scalars, which are on the card with all they have."""
        for group in self._optimizer.param_groups:
            for weight in group["params"]:
                if weight.dim() < 2:
                    state = self._optimizer.state[weight]
                    state["step"] += 1 - found_inf
                    averages = (state["exp_avg"], state["exp_avg_sq"])
                    fused_adamw(weight, self.gradient_of(weight), *averages, state["step"], group, found_inf)

    # --- by the host's cores ------------------------------------------------------------------------------------------

    def _by_cores(self, parts: Sequence[AdamWPart]) -> Iterator[Piece]:
        """Only gradients and new weights are on the bus. While the cores update a part, the next gradient arrives."""
        counts = torch.stack([part.count for part in parts]).cpu()
        ready = self.bus.now()
        arriving = self._fetch(parts[0], 0, ready)
        for number, part in enumerate(parts):
            arrived = arriving
            if number + 1 < len(parts):
                arriving = self._fetch(parts[number + 1], number + 1, ready)
            if arrived is not None:
                arrived.synchronize()
            fused_adamw(part.weight, self._staged(part, number), *part.averages, counts[number], part.group, None)
            assert part.refresh is not None
            yield Piece((part.weight,), part.refresh, changes=False)

    def _fetch(self, part: AdamWPart, number: int, ready: Done) -> Done:
        return self.bus.store([(part.gradient, self._staged(part, number))], ready)

    def _staged(self, part: AdamWPart, number: int) -> Tensor:
        return self._gradients[number % 2][: part.gradient.numel()].view(part.gradient.shape)

    def _cores_are_faster(self) -> bool:
        """Try both ways with a few parts of zeros."""
        like = next((each for each in self._parts if each.refresh is not None), None)
        if self.bus.device.type != "cuda" or like is None:
            return False
        scratch = Arena(3 * _TRIAL * place_of(like.weight.shape), self.bus.device)
        parts = []
        for _ in range(_TRIAL):
            weight, average, square = (scratch.empty(like.weight) for _ in range(3))
            gradient = torch.zeros_like(like.gradient)
            part = replace(like, weight=weight, averages=(average, square), gradient=gradient)
            parts.append(replace(part, count=torch.ones_like(like.count), refresh=partial(_copy, gradient)))
        zero = torch.zeros((), device=self.bus.device)
        by_cores = self._seconds(lambda: self._by_cores(parts))
        return by_cores < self._seconds(lambda: (part.on_card(zero) for part in parts))

    def _seconds(self, pieces: Callable[[], Iterable[Piece]]) -> float:
        self._pipeline.run(pieces())
        torch.cuda.synchronize(self.bus.device)
        begin = time.perf_counter()
        self._pipeline.run(pieces())
        torch.cuda.synchronize(self.bus.device)
        return time.perf_counter() - begin


def _copy(into: Tensor, weight: Tensor) -> None:
    into.bfloat16().copy_(weight)


def _rows(weight: Tensor) -> int:
    return max(1, HOST_PIECE // weight.size(1))


def _move_averages(optimizer: torch.optim.Optimizer, arena: Arena) -> None:
    """Before the first step, when all of them are zeros."""
    for weight, state in optimizer.state.items():
        for name in ADAMW_AVERAGES:
            if weight.dim() >= 2 and name in state:
                state[name] = arena.empty(state[name])
    if isinstance(optimizer, MuonAndAdamW):
        for stack in optimizer.stacks:
            stack.momentum = arena.empty(stack.momentum)
            optimizer.state.update(zip(stack.weights, stack.state(), strict=True))
