from __future__ import annotations

import pytest
import torch

from nanopace.train.kernels.fp8 import FP8_GRADIENT
from nanopace.train.kernels.relu2 import plain_relu2, relu2, relu2_backward

from .conftest import LIMITS, Draw, error

SIZES = [(3, 33), (2, 2100)]  # less than a block, and more than one


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_it_is_its_twin_and_so_is_the_way_back(draw: Draw, dtype: torch.dtype, size: tuple[int, int]) -> None:
    """The backward pass needs only the output."""
    h, d_g = draw(*size, dtype=dtype, scale=3), draw(*size, dtype=dtype)
    leaf = h.float().clone().requires_grad_()
    plain_relu2(leaf).backward(d_g.float())
    assert leaf.grad is not None
    expected = plain_relu2(h)
    g = relu2(h)
    assert g is h
    assert error(g, expected) < LIMITS[dtype]
    d_h = relu2_backward(d_g, g)
    assert d_h is d_g
    assert error(d_h, leaf.grad) < 2 * LIMITS[dtype]


def test_far_from_0_and_next_to_it(draw: Draw) -> None:
    h = torch.tensor([-1e18, -0.0, 0.0, 1e-12, 1e18], device=draw(1).device, dtype=torch.bfloat16)
    slopes = relu2_backward(torch.ones_like(h), relu2(h)).tolist()
    assert slopes[:3] == [0, 0, 0]
    assert slopes[3:] == pytest.approx([2e-12, 2e18], rel=2**-6)


@pytest.mark.usefixtures("eight_bits")
def test_the_way_back_in_8_bits_as_well(draw: Draw) -> None:
    size = (2, 2100)
    h = draw(*size)
    d8, scale = torch.empty_like(h, dtype=FP8_GRADIENT), torch.tensor(0.125, device=h.device)
    g = relu2(h)
    d_h = relu2_backward(draw(*size), g, d8, scale)
    assert 0.02 < error(0.125 * d8.float(), d_h) < 2**-3  # two bits and a rounded third
