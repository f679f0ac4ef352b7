"""Updates weights whose averages, and for the blocks' matrices the weights themselves, are in the host's memory.

Gradients and the copies that are multiplied stay on the card. After the last micro-batch of a step, everything else
comes to the card in pieces, is updated there by the same kernels as ever, and goes home: 12 bytes per weight each way,
once per step. The result is the same to the last bit.

AdamW's matrices can also be updated by the host's cores: then only gradients and new weights are on the bus, 4 bytes
each way. Whichever way was faster in a short trial is taken.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from nanopace.hardware.memory import HOST_PIECE
from nanopace.train.host.adamw_part import AdamWPart
from nanopace.train.host.arena import Arena, place_of
from nanopace.train.host.bus import Bus, Done
from nanopace.train.host.layers import LayerStream
from nanopace.train.host.pipeline import Home, Piece, Pipeline
from nanopace.train.models.recipes import block_matrices
from nanopace.train.optim.adamw import ADAMW_AVERAGES
from nanopace.train.optim.muon import MOMENTUM_NAME, MuonAndAdamW, Stack
from nanopace.train.private_torch import fused_adamw, multiply_all, norms_of

if TYPE_CHECKING:
    from nanopace.train.fused.matrix import Matrix
    from nanopace.train.fused.model import Fused

_TRIAL = 6  # pieces


def arena_for(model: nn.Module, device: torch.device, *, muon: bool) -> Arena:
    """Memory for the blocks' matrices and all averages of matrices and tables; the matrices move into it, and
    everything else to the card. It is not pinned yet."""
    matrices = block_matrices(model)
    size = 0
    for name, weight in model.named_parameters():
        if weight.dim() >= 2:
            tensors = (2 if muon else 3) if name in matrices else 2
            size += tensors * place_of(weight.shape)
    arena = Arena(size)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.data = arena.empty(weight).copy_(weight) if name in matrices else weight.to(device)
    return arena


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
        stream: LayerStream | None = None,
        by_cores: bool | None = None,
    ) -> None:
        """`stream`: if gradients or matrices come and go with each micro-batch. `by_cores`: whether the host's cores
        update AdamW's matrices; None: whichever is faster."""
        fused.stream = self._stream = stream
        self._fused, self._optimizer, self._clip = fused, optimizer, clip
        self.arena, self.bus = arena, bus
        self._weights = [each for each in model.parameters() if each.requires_grad]
        self._away: dict[Tensor, Matrix] = {each.weights[0]: each for each in fused.matrices if each.away}
        self._gradients, self._copies = self._at_home()
        if isinstance(optimizer, MuonAndAdamW):
            optimizer.take_apart(bus.device)
        _move_averages(optimizer, arena)
        arena.pin(bus.device)  # only now: pinned memory takes its place at once, and all this had another until here
        self._parts = [*self._adamw_parts()]
        largest = max((each.gradient.numel() for each in self._parts), default=1)
        self._staging = Arena(2 * place_of(torch.Size((largest,))), bus.device)
        self._staged = [self._staging.empty(torch.empty(largest, device="meta")) for _ in range(2)]
        self.by_cores = False
        one = torch.ones((), device=bus.device)
        pieces = [*self._updating(one, one), *self._copying(), *self._unfolding({})]
        self._pipeline = Pipeline(bus, max(each.bytes for each in pieces))
        self.by_cores = self._cores_are_faster() if by_cores is None else by_cores
        self._pipeline.run(self._copying())
        self._settle()

    @property
    def host_bytes(self) -> int:
        streamed = 0 if self._stream is None else len(self._stream.arena)
        return len(self.arena) + len(self._staging) + streamed

    @torch.no_grad()
    def update(self, loss: Tensor) -> Tensor:
        """Clip, step, zero the gradients and refresh the copies. Returns the norm before clipping. If that or the loss
        is not finite, the weights stay as they are."""
        self._settle()
        self._fused.finish()
        norms: dict[Tensor, Tensor] = {}
        self._pipeline.run(self._unfolding(norms))
        on_card = {each: self.gradient_of(each) for each in self._weights if each not in self._gradients}
        norms.update(zip(on_card, norms_of([*on_card.values()]), strict=True))
        norm: Tensor = torch.linalg.vector_norm(torch.stack([norms[each] for each in self._weights]))
        factor = (self._clip / (norm + 1e-6)).clamp(max=1.0) if self._clip else torch.ones_like(norm)
        if self._clip:
            multiply_all([*on_card.values()], factor)
        found_inf = (~torch.isfinite(loss + norm)).float()
        self._update_small(found_inf)
        for count in {id(part.count): part.count for part in self._parts}.values():
            count += 1 - found_inf
        self._pipeline.run(self._updating(factor, found_inf))
        self._settle()
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
        """A weight's gradient, wherever it is."""
        if weight in self._gradients:
            if self.bus.device.type == "cuda":
                torch.cuda.synchronize(self.bus.device)  # it may still be on its way
            return self._gradients[weight]
        gradient = self._away[weight].gradient if weight in self._away else weight.grad
        assert gradient is not None, "gradients are there from the beginning"
        return gradient

    def _at_home(self) -> tuple[dict[Tensor, Tensor], dict[Tensor, Tensor]]:
        """By weight: the gradients and the copies that are in the host's memory."""
        gradients: dict[Tensor, Tensor] = {}
        copies: dict[Tensor, Tensor] = {}
        if (stream := self._stream) is not None:
            for number, layer in enumerate(self._fused.layers):
                weights = [each.weights[0] for each in layer.matrices]
                for shelf, found in ((stream.gradients, gradients), (stream.weights, copies)):
                    if shelf is not None:
                        found.update(zip(weights, shelf.homes(number), strict=True))
        return gradients, copies

    def _settle(self) -> None:
        if self._stream is not None:
            self._stream.settle()

    # --- what has to be done ------------------------------------------------------------------------------------------

    def _adamw_parts(self) -> Iterator[AdamWPart]:
        for group in self._optimizer.param_groups:
            for weight in group["params"]:
                state = self._optimizer.state[weight]
                if weight.dim() < 2 or MOMENTUM_NAME in state:
                    continue
                gradient, copy, rows = self.gradient_of(weight), self._copies.get(weight), HOST_PIECE // weight.size(1)
                for first in range(0, len(weight), max(1, rows)):
                    some = slice(first, first + max(1, rows))
                    yield AdamWPart(
                        weight.detach()[some],
                        gradient[some],
                        (state["exp_avg"][some], state["exp_avg_sq"][some]),
                        state["step"],
                        group,
                        self._away.get(weight),
                        first,
                        None if copy is None else copy[some],
                        weight in self._gradients,
                    )

    def _updating(self, factor: Tensor, found_inf: Tensor) -> Iterator[Piece]:
        for_cores = [part for part in self._parts if self.by_cores and part.matrix is not None]
        if for_cores and not found_inf.item():
            yield from self._by_cores(for_cores, factor)
        yield from (part.on_card(factor, found_inf) for part in self._parts if not self.by_cores or part.matrix is None)
        if isinstance(self._optimizer, MuonAndAdamW):
            for stack in self._optimizer.stacks:
                yield self._muon_piece(self._optimizer, stack, factor, found_inf)

    def _muon_piece(self, optimizer: MuonAndAdamW, stack: Stack, factor: Tensor, found_inf: Tensor) -> Piece:
        (weight,) = stack.weights
        matrix, gradient, copy = self._away[weight], self._gradients.get(weight), self._copies.get(weight)
        homes = [Home(weight.detach()), Home(stack.momentum)]
        homes += [] if gradient is None else [Home(gradient, store=False)]
        homes += [] if copy is None else [Home(copy, load=False)]

        def use(weight: Tensor, momentum: Tensor, *others: Tensor) -> None:
            rest = iter(others)
            step = matrix.gradient if gradient is None else next(rest).mul_(factor)
            optimizer.step_away(stack, weight, step, momentum, found_inf)
            if copy is None:
                matrix.copy_rows(weight)
            else:
                matrix.copy_into(next(rest), weight)

        return Piece(homes, use)

    def _unfolding(self, norms: dict[Tensor, Tensor]) -> Iterator[Piece]:
        """A norm's gradient needs the weight of the matrix behind it. Also finds the norms of gradients at home."""
        for weight, matrix in self._away.items():
            home = self._gradients.get(weight)
            homes = [] if home is None else [Home(home, store=matrix.norm is not None)]
            homes += [] if matrix.norm is None else [Home(weight.detach(), store=False)]
            if homes:
                yield Piece(homes, partial(self._unfold, weight, norms))

    def _unfold(self, weight: Tensor, norms: dict[Tensor, Tensor], *copies: Tensor) -> None:
        matrix = self._away[weight]
        gradient = copies[0] if weight in self._gradients else matrix.gradient
        if matrix.norm is not None:
            matrix.unfold_away(copies[-1], gradient)
        if weight in self._gradients:
            (norms[weight],) = norms_of([gradient])

    def _copying(self) -> Iterator[Piece]:
        for weight, matrix in self._away.items():
            home = self._copies.get(weight)
            source = Home(weight.detach(), store=False)
            if home is None:
                yield Piece([source], matrix.copy_rows)
            else:
                yield Piece([Home(home, load=False), source], matrix.copy_into)

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

    def _by_cores(self, parts: Sequence[AdamWPart], factor: Tensor) -> Iterator[Piece]:
        """While the cores update a part, the next gradient arrives, and the last weight leaves."""
        counts, clip, ready = torch.stack([part.count for part in parts]).cpu(), factor.item(), self.bus.now()
        arriving = self._fetch(parts[0], 0, ready)
        for number, part in enumerate(parts):
            arrived, gradient = arriving
            if number + 1 < len(parts):
                arriving = self._fetch(parts[number + 1], number + 1, ready)
            if arrived is not None:
                arrived.synchronize()
            part.by_cores(gradient.mul_(clip) if part.gradient_at_home else gradient, counts[number])
            yield part.refreshing()

    def _fetch(self, part: AdamWPart, number: int, ready: Done) -> tuple[Done, Tensor]:
        """A gradient at home, and when it is there."""
        if part.gradient_at_home:
            return None, part.gradient
        staged = self._staged[number % 2][: part.gradient.numel()].view(part.gradient.shape)
        return self.bus.store([(part.gradient, staged)], ready), staged

    def _cores_are_faster(self) -> bool:
        """Try both ways with a few parts of zeros. They overwrite a copy, so this comes before the copies are made."""
        like = next((each for each in self._parts if each.matrix is not None), None)
        if self.bus.device.type != "cuda" or like is None:
            return False
        tensors = (like.weight, *like.averages, like.gradient)
        scratch = Arena(_TRIAL * sum(place_of(each.shape) for each in tensors), self.bus.device)
        parts = []
        for _ in range(_TRIAL):
            weight, average, square, gradient = (scratch.empty(each) for each in tensors)
            gradient = gradient if like.gradient_at_home else gradient.to(self.bus.device)
            part = replace(like, weight=weight, averages=(average, square), gradient=gradient)
            parts.append(replace(part, count=torch.ones_like(like.count)))
        one, zero = (torch.full((), each, device=self.bus.device) for each in (1.0, 0.0))
        by_cores = self._seconds(lambda: self._by_cores(parts, one))
        return by_cores < self._seconds(lambda: (part.on_card(one, zero) for part in parts))

    def _seconds(self, pieces: Callable[[], Iterable[Piece]]) -> float:
        for _ in range(2):  # the first time, something is loaded
            begin = time.perf_counter()
            self._pipeline.run(pieces())
            torch.cuda.synchronize(self.bus.device)
        return time.perf_counter() - begin


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
