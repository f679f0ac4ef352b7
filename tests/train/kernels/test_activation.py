from __future__ import annotations

import pytest
import torch

from nanopace.train.kernels.activation import gelu, gelu_backward, plain_gelu
from nanopace.train.kernels.fp8 import FP8_GRADIENT

from .conftest import LIMITS, Draw, error

DTYPES = [torch.float32, torch.bfloat16]


def test_it_is_the_exact_gelu_wherever_it_is_not_0(device: torch.device) -> None:
    """In more than one block, with a partial one."""
    h = torch.linspace(-12, 12, 5003, dtype=torch.float64)
    exact = h * 0.5 * torch.erfc(-h / 2**0.5)
    found = gelu(h.float().to(device)).double().cpu()
    torch.testing.assert_close(found, exact, rtol=3e-7, atol=1e-6)


def test_its_slope_is_exact_too(device: torch.device) -> None:
    h = torch.linspace(-12, 12, 5003, dtype=torch.float64)
    exact = 0.5 * torch.erfc(-h / 2**0.5) + h * torch.exp(-h * h / 2) / (2 * torch.pi) ** 0.5
    found, _ = gelu_backward(torch.ones(5003, device=device), h.float().to(device), None)
    torch.testing.assert_close(found.double().cpu(), exact, rtol=0, atol=1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
def test_it_is_its_twin(draw: Draw, dtype: torch.dtype) -> None:
    h = draw(7, 80, dtype=dtype, scale=2)
    found = gelu(h)
    assert found.dtype == dtype
    assert error(found, plain_gelu(h)) < LIMITS[dtype]


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_way_back_is_its_twin_s_and_gives_the_activation_once_more(draw: Draw, dtype: torch.dtype) -> None:
    h, slope = draw(7, 80, dtype=dtype, scale=2), draw(7, 80, dtype=dtype)
    leaf = h.float().requires_grad_()
    plain_gelu(leaf).backward(slope.float())
    assert leaf.grad is not None
    given, g = slope.clone(), gelu(h)
    d_h, again = gelu_backward(given, h, None)
    assert d_h.data_ptr() == given.data_ptr()  # no memory of its own
    assert error(d_h, leaf.grad) < LIMITS[dtype]
    assert torch.equal(again, g)
    d_h, kept = gelu_backward(slope.clone(), h, g)
    assert torch.equal(d_h, given)
    assert kept is g


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # of the square: exp(-inf) is right
def test_what_is_far_out_stays_finite(device: torch.device) -> None:
    h = torch.tensor([-1e30, -1e4, -0.0, 0.0, 1e4, 1e30], device=device)
    assert gelu(h).tolist() == [0, 0, 0, 0, 1e4, pytest.approx(1e30)]
    d_h, _ = gelu_backward(torch.ones_like(h), h, None)
    assert d_h.tolist() == [0, 0, 0.5, 0.5, 1, 1]


@pytest.mark.usefixtures("eight_bits")
def test_the_way_back_in_8_bits_as_well(draw: Draw) -> None:
    size = (2, 2100)
    h = draw(*size)
    d8, scale = torch.empty_like(h, dtype=FP8_GRADIENT), torch.tensor(0.125, device=h.device)
    d_h = gelu_backward(draw(*size), h, None, d8, scale)[0]
    assert 0.02 < error(0.125 * d8.float(), d_h) < 2**-3  # two bits and a rounded third
