"""Muon's passes compared with their twins, and all of Muon with and without kernels."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from nanopace.train.kernels.muon import (
    PointerTable,
    apply_update,
    nesterov_momentum,
    plain_apply_update,
    plain_nesterov_momentum,
)
from nanopace.train.optim.muon import MuonSettings, Stack

from .conftest import LIMITS, Draw, error

COUNTS = (2, 1)
STACKS = [(3, 5, 12), (3, 12, 5), (3, 4, 4)]


def apart(stack: Tensor) -> list[Tensor]:
    """Each weight has its own allocation, and the first one holds two matrices."""
    return [each.reshape(-1, each.size(-1)).clone() for each in stack.split(COUNTS)]


def together(weights: list[Tensor], size: tuple[int, ...]) -> Tensor:
    return torch.cat([each.view(-1, *size[1:]) for each in weights])


@pytest.mark.parametrize("skip", [None, 0.0, 1.0])
@pytest.mark.parametrize("size", STACKS)
def test_momentum_is_its_twin(draw: Draw, size: tuple[int, ...], skip: float | None) -> None:
    gradients, momentum, share = draw(*size), draw(*size), draw(1).fill_(0.9)[0]
    if skip:
        gradients.fill_(float("nan"))
    flag = None if skip is None else torch.full_like(share, skip)
    expected_momentum = momentum.clone()
    expected = plain_nesterov_momentum(gradients, expected_momentum, share, flag, torch.float32)
    places, before = PointerTable(), momentum.clone()
    own = apart(gradients)
    table = places.pointers(own, COUNTS)
    found = nesterov_momentum(table, momentum, share, flag, torch.float32, aligned=places.aligned)
    assert error(found, expected) < LIMITS[torch.float32]
    assert error(momentum, expected_momentum) < LIMITS[torch.float32]
    assert torch.equal(momentum, before) == bool(skip)
    assert nesterov_momentum(table, momentum, share, flag, torch.bfloat16, aligned=False).dtype == torch.bfloat16


@pytest.mark.parametrize("skip", [None, 0.0, 1.0])
@pytest.mark.parametrize("decay", [0.2, 0.0])
@pytest.mark.parametrize("by_row", [True, False])
def test_a_step_is_its_twin(draw: Draw, by_row: bool, decay: float, skip: float | None) -> None:
    size = STACKS[0]
    weights, change = draw(*size), draw(*size, dtype=torch.bfloat16)
    factors = draw(3, 5, 1) if by_row else draw(3, 1, 12)
    flag = None if skip is None else torch.full_like(draw(1), skip)
    expected = plain_apply_update(weights, change, factors, decay, flag)
    places, own = PointerTable(), apart(weights)
    apply_update(places.pointers(own, COUNTS), change, factors, decay, flag, aligned=places.aligned)
    assert error(together(own, size), expected) < LIMITS[torch.float32]
    assert torch.equal(together(own, size), weights) == bool(skip)


def test_places_are_looked_up_again_when_something_has_moved(draw: Draw) -> None:
    places, own = PointerTable(), apart(draw(3, 4, 4))
    table = places.pointers(own, COUNTS)
    assert places.pointers(own, COUNTS) is table
    assert table.tolist() == [own[0].data_ptr(), own[0].data_ptr() + 64, own[1].data_ptr()]
    assert places.aligned
    moved = [own[0], own[1].clone()]
    assert places.pointers(moved, COUNTS).tolist()[2] == moved[1].data_ptr()
    places.pointers(apart(draw(3, 4, 5)), COUNTS)  # rows of 20 bytes
    assert not places.aligned


@pytest.mark.parametrize("normuon", [True, False])
def test_steps_in_kernels_are_steps_in_torch(draw: Draw, normuon: bool) -> None:
    start = apart(draw(3, 4, 6))
    ends = []
    for kernels in (True, False):
        weights = [each.clone().requires_grad_() for each in start]
        how = MuonSettings(torch.float32, normuon=normuon, kernels=kernels)
        stack = Stack([*zip(weights, COUNTS, strict=True)], normuon=normuon)
        generator = torch.Generator().manual_seed(1)
        for step in range(3):
            for each in weights:
                each.grad = torch.randn(each.shape, generator=generator).to(each.device)
            with torch.no_grad():
                stack.step(0.1, 0.1, torch.full_like(stack.steps[0], float(step == 1)), how)
        memory = [each for of_weight in stack.state() for each in of_weight.values()]
        ends.append([each.detach().clone() for each in (*weights, *memory)])
    assert error(ends[0][0], start[0]) > 0.05
    for found, expected in zip(*ends, strict=True):
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)
