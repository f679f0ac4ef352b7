"""Muon for matrices and AdamW for everything else, as one optimizer that never waits for the host.

Muon (Keller Jordan 2024) steps along the momentum with all its singular values set to 1. Here the matrices of one shape
are orthogonalised together in one batched product, and their momentum is one buffer; each weight has a slice of it.
Queries, keys and values are three matrices, although one weight holds them.

NorMuon (arXiv 2510.05491) then normalises the neurons: each is divided by its running root mean square, and the matrix
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
    from nanopace.train.kernels.muon import PointerTable

MOMENTUM, EARLY_MOMENTUM, MOMENTUM_WARMUP = 0.95, 0.85, 100  # steps from the early momentum to the later one
NORMUON_BETA = 0.95  # of NorMuon's running mean square: about 20 steps

MUON_STATE = MOMENTUM_NAME, SQUARE_NAME = "momentum", "neuron_sq"  # its state per weight, in addition to a count
COUNT_NAME = "step"


def muon_and_adamw(groups: Groups, config: TrainConfig, device: torch.device) -> MuonAndAdamW:
    """Muon for the matrices, AdamW for the other weights."""
    stacks: dict[tuple[int, int], list[tuple[Tensor, int]]] = defaultdict(list)
    for name, each in groups.matrices.items():
        count = 3 if name.endswith("c_attn.weight") else 1
        stacks[each.size(0) // count, each.size(1)].append((each, count))
    return MuonAndAdamW(
        {"lr": config.matrix_lr, PEAK: config.matrix_lr, "weight_decay": config.weight_decay},
        [*stacks.values()],
        adamw(groups.adamw, config, device, groups.eps),
        MuonSettings(
            dtype=torch.bfloat16 if device.type == "cuda" else torch.float32,  # a CPU is slower in bfloat16
            normuon="normuon" in ingredients(config.recipe, config.without),
            kernels=_uses_kernels(config, device),
        ),
    )


def _uses_kernels(config: TrainConfig, device: torch.device) -> bool:
    whole = config.parallel != "fsdp"  # where each rank has only a part of each weight
    return device.type == "cuda" and config.fused and whole and find_spec("triton") is not None


@dataclass(frozen=True, slots=True)
class Polynomials:
    """Each is a x + b x^3 + c x^5; applied in turn, they drive singular values from (0, 1] towards 1."""

    coefficients: Sequence[tuple[float, float, float]]
    safety: float  # factor on the norm, so that rounding cannot carry a value beyond 1


# Polar Express (arXiv 2505.16932): each polynomial is optimal for what the previous ones have left.
POLAR_EXPRESS = Polynomials(
    (
        (8.156554524902461, -22.48329292557795, 15.878769915207462),
        (4.042929935166739, -2.808917465908714, 0.5000178451051316),
        (3.8916678022926607, -2.772484153217685, 0.5060648178503393),
        (3.285753657755655, -2.3681294933425376, 0.46449024233003106),
        (2.3465413258596377, -1.7097828382687081, 0.42323551169305323),
    ),
    safety=1.02,
)
NEWTON_SCHULZ = Polynomials(((3.4445, -4.7750, 2.0315),) * 5, safety=1.0)  # the original Muon's, and torch.optim.Muon's


def orthogonalize(matrices: Tensor, polynomials: Polynomials = POLAR_EXPRESS) -> Tensor:
    """Matrices (count, rows, columns) with all singular values near 1, in the same dtype."""
    x: Tensor = matrices / (matrices.norm(dim=(-2, -1), keepdim=True) * polynomials.safety + 1e-7)
    tall = x.size(-2) > x.size(-1)
    for a, b, c in polynomials.coefficients:
        square = x.mT @ x if tall else x @ x.mT  # the smaller of the two
        square = torch.baddbmm(square, square, square, beta=b, alpha=c)
        x = torch.baddbmm(x, x, square, beta=a) if tall else torch.baddbmm(x, square, x, beta=a)
    return x


def normalize_neurons(directions: Tensor, squares: Tensor, beta: Tensor) -> Tensor:
    """Each neuron over its running root mean square; each matrix keeps its norm. Neurons are along the longer side."""
    mean_squares = directions.square().mean(dim=_neuron_dim(directions.shape), keepdim=True)
    return directions * _neuron_scales(mean_squares, squares, beta)


def _neuron_scales(mean_squares: Tensor, squares: Tensor, beta: Tensor) -> Tensor:
    """The factor for each neuron."""
    squares.lerp_(mean_squares, 1 - beta)
    scale = squares.clamp_min(1e-10).rsqrt()
    before, after = (each.sum(dim=(-2, -1), keepdim=True) for each in (mean_squares, mean_squares * scale.square()))
    return scale * (before / after.clamp_min(1e-10)).sqrt()


def _neuron_dim(size: Sequence[int]) -> int:
    """The dimension along which a neuron's values lie."""
    return -1 if size[-2] >= size[-1] else -2


class Stack:
    """The matrices of one shape, and their state."""

    def __init__(
        self, weights: Sequence[tuple[Tensor, int]], *, normuon: bool, device: torch.device | None = None
    ) -> None:
        """`weights`: each weight and how many matrices it holds, one above the other. `device`: of what is small, if
        the weights are in the host's memory."""
        self.weights = [weight for weight, _ in weights]
        self.gradients: Sequence[Tensor] | None = None  # None: those of the weights
        self._counts = [count for _, count in weights]
        first, count = weights[0]
        size = (sum(self._counts), first.size(0) // count, first.size(1))
        squares = [*size]
        squares[_neuron_dim(size)] = 1
        self.momentum = first.new_zeros(size)
        self.squares = first.new_zeros(squares, device=device) if normuon else None
        self.steps = first.new_zeros(len(weights), device=device)
        self._pointers: tuple[PointerTable, PointerTable] | None = None  # for kernels: gradients and weights

    def state(self) -> list[dict[str, Tensor]]:
        """The state of each weight by name: slices of the buffers, in the weight's own shape."""
        state = [{COUNT_NAME: step} for step in self.steps.unbind()]
        for name, buffer in ((MOMENTUM_NAME, self.momentum), (SQUARE_NAME, self.squares)):
            if buffer is not None:
                for own, part in zip(state, self._unstacked(buffer), strict=True):
                    own[name] = part
        return state

    def step(self, lr: float, decay: float, found_inf: Tensor | None, settings: MuonSettings) -> None:
        """Step with all matrices; if `found_inf` is 1, nothing changes."""
        skip = None if found_inf is None else found_inf > 0
        momentum = self._momentum_now(settings)
        if settings.kernels:
            self._step_in_kernels(lr, decay, found_inf, momentum, settings)
        else:
            self._step_in_torch(lr, decay, skip, momentum, settings)
        self.steps.add_(1.0 if skip is None else (~skip).float())

    def _step_in_torch(
        self, lr: float, decay: float, skip: Tensor | None, momentum: Tensor, settings: MuonSettings
    ) -> None:
        gradients = self._stacked(self._gradients())
        if skip is not None:  # averaging the momentum with itself leaves it unchanged
            gradients = torch.where(skip, self.momentum, gradients)
        self.momentum.lerp_(gradients, 1 - momentum)
        nesterov = gradients.lerp_(self.momentum, momentum)
        change = orthogonalize(nesterov.to(settings.dtype), settings.polynomials).to(nesterov.dtype)
        if self.squares is not None:
            beta = momentum.new_full((), NORMUON_BETA) if skip is None else torch.where(skip, 1.0, NORMUON_BETA)
            change = normalize_neurons(change, self.squares, beta)
        change = change * (lr * shape_scale(change.size(-2), change.size(-1)))
        if decay:
            weights = self._stacked([each.detach() for each in self.weights])
            change = change.add_(weights, alpha=lr * decay)
        if skip is not None:
            change = torch.where(skip, 0.0, change)
        subtract_all(self.weights, self._unstacked(change))

    def _step_in_kernels(
        self, lr: float, decay: float, found_inf: Tensor | None, momentum: Tensor, settings: MuonSettings
    ) -> None:
        """The same, with two passes over gradients, momentum and weights instead of twenty."""
        from nanopace.train.kernels.muon import PointerTable, apply_update, nesterov_momentum  # they need triton

        self._pointers = self._pointers or (PointerTable(), PointerTable())
        gradients, weights = self._pointers
        table = gradients.pointers(self._gradients(), self._counts)
        change = nesterov_momentum(table, self.momentum, momentum, found_inf, settings.dtype, aligned=gradients.aligned)
        change = orthogonalize(change, settings.polynomials)
        across = _neuron_dim(change.shape)
        if self.squares is None:
            factors = self.momentum.new_ones((len(change), change.size(1), 1))
        else:
            lengths = torch.linalg.vector_norm(change, dim=across, keepdim=True, dtype=torch.float32)
            beta = momentum.new_full((), NORMUON_BETA)
            beta = beta if found_inf is None else torch.where(found_inf > 0, 1.0, beta)
            factors = _neuron_scales(lengths.square() / change.size(across), self.squares, beta)
        factors = factors * (lr * shape_scale(change.size(-2), change.size(-1)))
        table = weights.pointers([each.detach() for each in self.weights], self._counts)
        apply_update(table, change, factors, lr * decay, found_inf, aligned=weights.aligned)

    def parts(self) -> list[tuple[Tensor, int]]:
        """Each weight and how many matrices it holds."""
        return [*zip(self.weights, self._counts, strict=True)]

    def _gradients(self) -> Sequence[Tensor]:
        return [_gradient(each) for each in self.weights] if self.gradients is None else self.gradients

    def _momentum_now(self, settings: MuonSettings) -> Tensor:
        warm = (self.steps[0] / MOMENTUM_WARMUP).clamp(max=1.0) if settings.momentum_warmup else self.steps.new_ones(())
        return EARLY_MOMENTUM + (MOMENTUM - EARLY_MOMENTUM) * warm

    def _stacked(self, tensors: Sequence[Tensor]) -> Tensor:
        return torch.cat([each.reshape(-1, *self.momentum.shape[1:]) for each in tensors])

    def _unstacked(self, buffer: Tensor) -> list[Tensor]:
        """A view for each weight, with its matrices one above the other again."""
        return [part.reshape(-1, part.size(-1)) for part in buffer.split(self._counts)]


def _gradient(weight: Tensor) -> Tensor:
    assert weight.grad is not None, "every weight has a gradient after a backward pass"
    return weight.grad


def shape_scale(rows: int, columns: int) -> float:
    """A factor on the learning rate, as in modded-nanogpt: matrices with more outputs than inputs take larger steps."""
    return math.sqrt(max(1.0, rows / columns))


@dataclass(frozen=True, slots=True)
class MuonSettings:
    """What can differ between two Muon optimizers, apart from the rates."""

    dtype: torch.dtype
    polynomials: Polynomials = POLAR_EXPRESS
    normuon: bool = True
    momentum_warmup: bool = True  # a lower momentum in the first steps
    kernels: bool = False  # our own: they need triton and unsharded weights


class MuonAndAdamW(torch.optim.Optimizer):
    """`found_inf`, if it is set, is a tensor on the device: 1 leaves weights, averages and counts unchanged."""

    _step_supports_amp_scaling = True  # GradScaler looks for this: then it sets found_inf and does not wait

    def __init__(
        self,
        matrices: dict[str, Any],
        stacks: Sequence[Sequence[tuple[Tensor, int]]],
        adamw: torch.optim.AdamW,
        settings: MuonSettings,
    ) -> None:
        """`matrices` has lr and weight_decay of Muon's group; `adamw` has all the other weights."""
        self._adamw, self._settings = adamw, settings
        weights = [weight for stack in stacks for weight, _ in stack]
        defaults = {"lr": adamw.defaults["lr"], "fused": adamw.defaults["fused"]}
        super().__init__([{"params": weights, **matrices}], defaults)
        self._matrices = self.param_groups[0]
        self.stacks = [Stack(each, normuon=settings.normuon) for each in stacks]
        self.param_groups = [*adamw.param_groups, self._matrices]  # the same objects: a rate set here is set there
        self.state.update(adamw.state)
        for stack in self.stacks:
            self.state.update(zip(stack.weights, stack.state(), strict=True))

    def take_apart(self, device: torch.device) -> None:
        """Make a stack of every weight, so that they can be updated one after the other; all state is new."""
        weights = [each for stack in self.stacks for each in stack.parts()]
        self.stacks = []
        self.state.update((weight, {}) for weight, _ in weights)  # so that there is never memory for both
        self.stacks = [Stack([each], normuon=self._settings.normuon, device=device) for each in weights]
        for stack in self.stacks:
            self.state.update(zip(stack.weights, stack.state(), strict=True))

    def step_away(self, stack: Stack, weight: Tensor, gradient: Tensor, momentum: Tensor, found_inf: Tensor) -> None:
        """Step with one weight, of which these are copies on the card (train/host)."""
        at_home = stack.weights, stack.momentum
        stack.weights, stack.gradients, stack.momentum = [weight], [gradient], momentum
        stack.step(self._matrices["lr"], self._matrices["weight_decay"], found_inf, self._settings)
        stack.weights, stack.momentum = at_home

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
        for stack in self.stacks:
            stack.step(self._matrices["lr"], self._matrices["weight_decay"], found_inf, self._settings)
