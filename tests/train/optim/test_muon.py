"""Batched Muon compared with torch's own, and its saved state compared with its behaviour."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor

from nanopace.train.optim.muon import (
    NEWTON_SCHULZ,
    NORMUON_BETA,
    POLAR_EXPRESS,
    MuonAndAdamW,
    MuonSettings,
    Stack,
    normalize_neurons,
    orthogonalize,
    shape_scale,
)

PLAIN = MuonSettings(torch.bfloat16, NEWTON_SCHULZ, normuon=False, momentum_warmup=False)  # as torch.optim.Muon is
SIZES = ((24, 24), (24, 24), (96, 24), (24, 96))


def drawn(*sizes: tuple[int, ...], seed: int = 0) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(size, generator=generator).requires_grad_() for size in sizes]


def optimizer_of(weights: list[Tensor], how: MuonSettings, rate: float = 0.1, decay: float = 0.1) -> MuonAndAdamW:
    """The last one is AdamW's."""
    *matrices, other = weights
    stacks: dict[torch.Size, list[tuple[Tensor, int]]] = {}
    for each in matrices:
        stacks.setdefault(each.shape, []).append((each, 1))
    adamw = torch.optim.AdamW([other], lr=0.01, fused=True)
    adamw.state[other] = {
        "step": torch.zeros(()),
        "exp_avg": torch.zeros_like(other),
        "exp_avg_sq": torch.zeros_like(other),
    }
    return MuonAndAdamW({"lr": rate, "weight_decay": decay}, [*stacks.values()], adamw, how)


def give_gradients(weights: list[Tensor], step: int) -> None:
    for weight, gradient in zip(weights, drawn(*(each.shape for each in weights), seed=100 + step), strict=True):
        weight.grad = gradient.detach()


def test_it_is_torchs_muon_beside_torchs_adamw() -> None:
    ours, theirs = drawn(*SIZES, (7,)), drawn(*SIZES, (7,))
    own = optimizer_of(ours, PLAIN)
    muon = torch.optim.Muon(theirs[:-1], lr=0.1, momentum=0.95, weight_decay=0.1)
    adamw = torch.optim.AdamW(theirs[-1:], lr=0.01, fused=True)
    before = [each.detach().clone() for each in ours]
    for step in range(4):
        for weights in (ours, theirs):
            give_gradients(weights, step)
        own.step()
        muon.step()
        adamw.step()
    for a, b, start in zip(ours, theirs, before, strict=True):
        moved = (b - start).norm()
        assert moved > 0.01
        assert (a - b).norm() < 0.02 * moved  # bfloat16, in another order


@pytest.mark.parametrize("size", [(24, 24), (96, 24), (24, 96)])
@pytest.mark.parametrize(("iteration", "least", "most"), [(POLAR_EXPRESS, 0.75, 1.2), (NEWTON_SCHULZ, 0.5, 1.3)])
def test_singular_values_become_one(size: tuple[int, int], iteration: object, least: float, most: float) -> None:
    matrices = torch.stack([_spread(size, scale) for scale in (1e-4, 1.0, 1e4)])
    made = orthogonalize(matrices, iteration)  # type: ignore[arg-type]
    values = torch.linalg.svdvals(made)
    assert (matrices.size(), values.min() > least, values.max() < most) == (made.size(), True, True)
    for one, among_others in zip(matrices, made, strict=True):  # each by itself
        torch.testing.assert_close(orthogonalize(one[None], iteration)[0], among_others, atol=1e-4, rtol=1e-4)  # type: ignore[arg-type]


def _spread(size: tuple[int, int], scale: float) -> Tensor:
    """Matrices with singular values from a twentieth of the largest up."""
    u, _, v = torch.linalg.svd(drawn(size)[0].detach(), full_matrices=False)
    return scale * (u * torch.linspace(0.05, 1.0, u.size(1))) @ v


def test_nothing_comes_of_nothing() -> None:
    assert not orthogonalize(torch.zeros(2, 4, 8)).any()
    assert not normalize_neurons(torch.zeros(2, 4, 8), torch.zeros(2, 1, 8), torch.tensor(NORMUON_BETA)).any()


@pytest.mark.parametrize(("size", "across"), [((2, 12, 8), -1), ((2, 8, 8), -1), ((2, 8, 12), -2)])
def test_neurons_are_evened_and_the_norm_is_kept(size: tuple[int, ...], across: int) -> None:
    torch.manual_seed(0)
    neurons = torch.logspace(-1, 1, max(size[1:]))
    directions = torch.randn(size) * (neurons[:, None] if across == -1 else neurons)
    squares = torch.zeros_like(directions.mean(dim=across, keepdim=True))
    made = normalize_neurons(directions, squares, torch.tensor(NORMUON_BETA))
    torch.testing.assert_close(made.norm(dim=(-2, -1)), directions.norm(dim=(-2, -1)))
    means = made.square().mean(dim=across)
    torch.testing.assert_close(means, means.mean(dim=-1, keepdim=True).expand_as(means))  # after one step all alike
    torch.testing.assert_close(squares, (1 - NORMUON_BETA) * directions.square().mean(dim=across, keepdim=True))


def test_three_matrices_in_one_weight_are_three_matrices() -> None:
    apart = drawn((8, 8), (8, 8), (8, 8))
    joined = torch.cat([each.detach() for each in apart]).requires_grad_()
    how = MuonSettings(torch.float32)
    one, three = Stack([(joined, 3)], normuon=True), Stack([(each, 1) for each in apart], normuon=True)
    for step in range(3):
        give_gradients(apart, step)
        joined.grad = torch.cat([_grad(each) for each in apart])
        for stack in (one, three):
            with torch.no_grad():
                stack.step(0.1, 0.1, None, how)
    torch.testing.assert_close(joined, torch.cat(apart))
    assert {name: each.shape for name, each in one.state()[0].items()} == {
        "step": (),
        "momentum": (24, 8),
        "neuron_sq": (24, 1),
    }


def _grad(weight: Tensor) -> Tensor:
    assert weight.grad is not None
    return weight.grad


@pytest.mark.parametrize("how", [MuonSettings(torch.float32), PLAIN])
def test_a_step_that_is_not_finite_leaves_everything_as_it_is(how: MuonSettings) -> None:
    weights = drawn(*SIZES, (7,))
    optimizer = optimizer_of(weights, how)
    twin_weights = drawn(*SIZES, (7,))
    twin = optimizer_of(twin_weights, how)
    for step in range(3):
        give_gradients(weights, step)
        optimizer.found_inf = torch.tensor(0.0)  # type: ignore[attr-defined]
        optimizer.step()
        give_gradients(twin_weights, step)
        twin.step()
        kept = copy.deepcopy([each.detach() for each in weights]), _memory(optimizer, weights)
        for weight in weights:
            weight.grad = torch.full_like(weight, float("nan"))
        optimizer.found_inf = torch.tensor(1.0)  # type: ignore[attr-defined]
        optimizer.step()
        for a, b in zip([*kept[0], *kept[1]], [*weights, *_memory(optimizer, weights)], strict=True):
            assert torch.equal(a, b)
    for a, b in zip(weights, twin_weights, strict=True):
        assert torch.equal(a, b)
    assert all(optimizer.state[each]["step"] == 3 for each in weights)


def _memory(optimizer: torch.optim.Optimizer, weights: list[Tensor]) -> list[Tensor]:
    return [value.clone() for weight in weights for value in optimizer.state[weight].values()]


def test_what_is_remembered_of_a_weight_is_a_slice_of_one_buffer() -> None:
    weights = drawn((8, 8), (8, 8), (3,))
    optimizer = optimizer_of(weights, MuonSettings(torch.float32))
    give_gradients(weights, 0)
    optimizer.step()
    first, second = (optimizer.state[each]["momentum"] for each in weights[:2])
    assert first.untyped_storage().data_ptr() == second.untyped_storage().data_ptr()
    torch.testing.assert_close(first, 0.15 * _grad(weights[0]))  # the early momentum is 0.85
    second.zero_()  # so what is restored into it is what the next step finds
    give_gradients(weights, 1)
    optimizer.step()
    torch.testing.assert_close(second, (1 - 0.851) * _grad(weights[1]))


def test_matrices_decay_by_the_rate() -> None:
    moved = {}
    for decay in (0.0, 0.5):
        weights = drawn((24, 24), (3,))
        before = weights[0].detach().clone()
        give_gradients(weights, 0)
        optimizer_of(weights, MuonSettings(torch.float32), rate=0.1, decay=decay).step()
        moved[decay] = weights[0].detach() - before
    torch.testing.assert_close(moved[0.5], moved[0.0] - 0.1 * 0.5 * before)


def test_rates_go_with_the_shape() -> None:
    assert [shape_scale(*size) for size in ((8, 8), (32, 8), (8, 32))] == [1.0, 2.0, 1.0]


def test_a_rate_that_is_set_is_adamws_too() -> None:
    weights = drawn((8, 8), (3,))
    optimizer = optimizer_of(weights, MuonSettings(torch.float32), decay=0.0)
    before = [each.detach().clone() for each in weights]
    for group in optimizer.param_groups:
        group["lr"] = 0.0
    give_gradients(weights, 0)
    optimizer.step()
    assert all(torch.equal(a, b) for a, b in zip(weights, before, strict=True))
    assert optimizer.defaults["fused"]
