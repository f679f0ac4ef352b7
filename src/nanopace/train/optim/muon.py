"""Muon for matrices and AdamW for everything else, as one optimizer that never waits for the host.

Muon (Keller Jordan 2024) steps along the momentum with all its singular values made 1. Here the matrices of one shape
are orthogonalised together, in one batched product, and what is remembered of them lies in one buffer, whose slices are
each weight's own. Queries, keys and values are three matrices, though one weight holds them.

NorMuon (arXiv 2510.05491) then evens out the neurons: each is divided by its running root mean square, and the whole
keeps its norm. AdamW is torch's own.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from nanopace.config import TrainConfig
from nanopace.knob_values import ingredients
from nanopace.train.optim.adamw import adamw
from nanopace.train.optim.groups import PEAK, Groups
from nanopace.train.private_torch import subtract_all

if TYPE_CHECKING:
    from nanopace.train.kernels.muon import Places

MOMENTUM, EARLY_MOMENTUM, SETTLING = 0.95, 0.85, 100  # from the early one to the other in so many steps
EVENING = 0.95  # NorMuon's memory, about 20 steps

MUON_STATE = MOMENTUM_NAME, SQUARE_NAME = "momentum", "neuron_sq"  # what it remembers of a weight beside a count
COUNT_NAME = "step"


def muon_and_adamw(groups: Groups, config: TrainConfig, device: torch.device) -> MuonAndAdamW:
    """Muon for the matrices, AdamW for the others."""
    stacks: dict[tuple[int, int], list[tuple[Tensor, int]]] = defaultdict(list)
    for name, each in groups.matrices.items():
        count = 3 if name.endswith("c_attn.weight") else 1
        stacks[each.size(0) // count, each.size(1)].append((each, count))
    return MuonAndAdamW(
        {"lr": config.matrix_lr, PEAK: config.matrix_lr, "weight_decay": config.weight_decay},
        [*stacks.values()],
        adamw(groups.adamw, config, device, groups.eps),
        Muon(
            dtype=torch.bfloat16 if device.type == "cuda" else torch.float32,  # a CPU is slower in bfloat16
            normuon="normuon" in ingredients(config.recipe, config.without),
            kernels=_takes_kernels(config, device),
        ),
    )


def _takes_kernels(config: TrainConfig, device: torch.device) -> bool:
    whole = config.parallel != "fsdp"  # no rank has more than a part of each weight there
    return device.type == "cuda" and config.fused and whole and find_spec("triton") is not None


@dataclass(frozen=True, slots=True)
class Iteration:
    """The polynomials a x + b x^3 + c x^5 that drive singular values from (0, 1] towards 1, one after the other."""

    coefficients: Sequence[tuple[float, float, float]]
    slack: float  # the norm is taken for this much larger: rounding must not carry a value beyond 1


# Polar Express (arXiv 2505.16932): each polynomial is the best one for what the ones before it have left.
POLAR_EXPRESS = Iteration(
    (
        (8.156554524902461, -22.48329292557795, 15.878769915207462),
        (4.042929935166739, -2.808917465908714, 0.5000178451051316),
        (3.8916678022926607, -2.772484153217685, 0.5060648178503393),
        (3.285753657755655, -2.3681294933425376, 0.46449024233003106),
        (2.3465413258596377, -1.7097828382687081, 0.42323551169305323),
    ),
    slack=1.02,
)
NEWTON_SCHULZ = Iteration(((3.4445, -4.7750, 2.0315),) * 5, slack=1.0)  # Muon's first, and torch.optim.Muon's


def orthogonalised(matrices: Tensor, iteration: Iteration = POLAR_EXPRESS) -> Tensor:
    """(count, rows, columns), each with all its singular values near 1, in the type that they have."""
    x: Tensor = matrices / (matrices.norm(dim=(-2, -1), keepdim=True) * iteration.slack + 1e-7)
    tall = x.size(-2) > x.size(-1)
    for a, b, c in iteration.coefficients:
        square = x.mT @ x if tall else x @ x.mT  # the smaller of the two
        square = torch.baddbmm(square, square, square, beta=b, alpha=c)
        x = torch.baddbmm(x, x, square, beta=a) if tall else torch.baddbmm(x, square, x, beta=a)
    return x


def evened(directions: Tensor, squares: Tensor, memory: Tensor) -> Tensor:
    """Each neuron by its root mean square over time; the whole keeps its norm. Neurons are along the longer side."""
    return directions * _evening(directions.square().mean(dim=_across(directions.shape), keepdim=True), squares, memory)


def _evening(now: Tensor, squares: Tensor, memory: Tensor) -> Tensor:
    """What each neuron is multiplied with. `now` are their mean squares."""
    squares.lerp_(now, 1 - memory)
    scale = squares.clamp_min(1e-10).rsqrt()
    before, after = (each.sum(dim=(-2, -1), keepdim=True) for each in (now, now * scale.square()))
    return scale * (before / after.clamp_min(1e-10)).sqrt()


def _across(size: Sequence[int]) -> int:
    """The dimension that one neuron's values lie along."""
    return -1 if size[-2] >= size[-1] else -2


class Stack:
    """The matrices of one shape, and what is remembered of them."""

    def __init__(self, weights: Sequence[tuple[Tensor, int]], *, evens: bool) -> None:
        """Each weight with how many matrices it holds, one above the other."""
        self.weights = [weight for weight, _ in weights]
        self._counts = [count for _, count in weights]
        first, count = weights[0]
        size = (sum(self._counts), first.size(0) // count, first.size(1))
        squares = [*size]
        squares[_across(size)] = 1
        self.momentum = first.new_zeros(size)
        self.squares = first.new_zeros(squares) if evens else None
        self.steps = first.new_zeros(len(weights))
        self._places: tuple[Places, Places] | None = None  # of gradients and weights, for kernels of our own

    def memory(self) -> list[dict[str, Tensor]]:
        """Of each weight, by name: slices of the buffers, in the weight's own shape."""
        kept = [{COUNT_NAME: step} for step in self.steps.unbind()]
        for name, buffer in ((MOMENTUM_NAME, self.momentum), (SQUARE_NAME, self.squares)):
            if buffer is not None:
                for own, part in zip(kept, self._apart(buffer), strict=True):
                    own[name] = part
        return kept

    def step(self, rate: float, decay: float, found_inf: Tensor | None, how: Muon) -> None:
        """`found_inf` is 1 where this step shall change nothing."""
        skip = None if found_inf is None else found_inf > 0
        momentum = self._momentum_now(how)
        if how.kernels:
            self._step_in_kernels(rate, decay, found_inf, momentum, how)
        else:
            self._step_in_torch(rate, decay, skip, momentum, how)
        self.steps.add_(1.0 if skip is None else (~skip).float())

    def _step_in_torch(self, rate: float, decay: float, skip: Tensor | None, momentum: Tensor, how: Muon) -> None:
        gradients = self._together([_gradient(each) for each in self.weights])
        if skip is not None:  # what goes towards itself stays where it is
            gradients = torch.where(skip, self.momentum, gradients)
        self.momentum.lerp_(gradients, 1 - momentum)
        ahead = gradients.lerp_(self.momentum, momentum)  # Nesterov
        change = orthogonalised(ahead.to(how.dtype), how.iteration).to(ahead.dtype)
        if self.squares is not None:
            memory = momentum.new_full((), EVENING) if skip is None else torch.where(skip, 1.0, EVENING)
            change = evened(change, self.squares, memory)
        change = change * (rate * shape_scale(change.size(-2), change.size(-1)))
        if decay:
            weights = self._together([each.detach() for each in self.weights])
            change = change.add_(weights, alpha=rate * decay)
        if skip is not None:
            change = torch.where(skip, 0.0, change)
        subtract_all(self.weights, self._apart(change))

    def _step_in_kernels(
        self, rate: float, decay: float, found_inf: Tensor | None, momentum: Tensor, how: Muon
    ) -> None:
        """The same, with two passes over gradients, momentum and weights instead of twenty."""
        from nanopace.train.kernels.muon import Places, ahead, subtract  # they need triton

        self._places = self._places or (Places(), Places())
        slopes, weights = self._places
        table = slopes.of([_gradient(each) for each in self.weights], self._counts)
        change = ahead(table, self.momentum, momentum, found_inf, how.dtype, aligned=slopes.aligned)
        change = orthogonalised(change, how.iteration)
        across = _across(change.shape)
        if self.squares is None:
            factors = self.momentum.new_ones((len(change), change.size(1), 1))
        else:
            lengths = torch.linalg.vector_norm(change, dim=across, keepdim=True, dtype=torch.float32)
            memory = momentum.new_full((), EVENING)
            memory = memory if found_inf is None else torch.where(found_inf > 0, 1.0, memory)
            factors = _evening(lengths.square() / change.size(across), self.squares, memory)
        factors = factors * (rate * shape_scale(change.size(-2), change.size(-1)))
        table = weights.of([each.detach() for each in self.weights], self._counts)
        subtract(table, change, factors, rate * decay, found_inf, aligned=weights.aligned)

    def _momentum_now(self, how: Muon) -> Tensor:
        settled = (self.steps[0] / SETTLING).clamp(max=1.0) if how.settles else self.steps.new_ones(())
        return EARLY_MOMENTUM + (MOMENTUM - EARLY_MOMENTUM) * settled

    def _together(self, tensors: Sequence[Tensor]) -> Tensor:
        return torch.cat([each.reshape(-1, *self.momentum.shape[1:]) for each in tensors])

    def _apart(self, buffer: Tensor) -> list[Tensor]:
        """A view for each weight: its matrices one above the other again."""
        return [part.reshape(-1, part.size(-1)) for part in buffer.split(self._counts)]


def _gradient(weight: Tensor) -> Tensor:
    assert weight.grad is not None, "every weight has a gradient after a backward pass"
    return weight.grad


def shape_scale(rows: int, columns: int) -> float:
    """On the rate, as in modded-nanogpt: what makes more of its input than it got gets a larger step."""
    return math.sqrt(max(1.0, rows / columns))


@dataclass(frozen=True, slots=True)
class Muon:
    """How it goes about it."""

    dtype: torch.dtype
    iteration: Iteration = POLAR_EXPRESS
    normuon: bool = True
    settles: bool = True  # a lower momentum in the first steps
    kernels: bool = False  # of our own: they need triton, and weights that are whole


class MuonAndAdamW(torch.optim.Optimizer):
    """`found_inf`, if it is set, is a tensor on the device: 1 leaves weights, averages and counts as they are."""

    _step_supports_amp_scaling = True  # GradScaler asks for it by this name: it sets found_inf, and does not wait

    def __init__(
        self,
        matrices: dict[str, Any],
        stacks: Sequence[Sequence[tuple[Tensor, int]]],
        adamw: torch.optim.AdamW,
        how: Muon,
    ) -> None:
        """`matrices` is the group of Muon's weights: its lr and weight_decay; `adamw` has all the others."""
        self._adamw, self._how = adamw, how
        weights = [weight for stack in stacks for weight, _ in stack]
        defaults = {"lr": adamw.defaults["lr"], "fused": adamw.defaults["fused"]}
        super().__init__([{"params": weights, **matrices}], defaults)
        self._matrices = self.param_groups[0]
        self._stacks = [Stack(each, evens=how.normuon) for each in stacks]
        self.param_groups = [*adamw.param_groups, self._matrices]  # the very same: a rate set here is set there
        self.state.update(adamw.state)
        for stack in self._stacks:
            self.state.update(zip(stack.weights, stack.memory(), strict=True))

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        assert closure is None, "nobody asks for a second pass"
        assert getattr(self, "grad_scale", None) is None, "gradients come unscaled"
        found_inf: Tensor | None = getattr(self, "found_inf", None)
        if found_inf is not None:
            self._adamw.found_inf = found_inf  # type: ignore[attr-defined]
        self._adamw.step()
        if found_inf is not None:
            del self._adamw.found_inf  # type: ignore[attr-defined]
        for stack in self._stacks:
            stack.step(self._matrices["lr"], self._matrices["weight_decay"], found_inf, self._how)
