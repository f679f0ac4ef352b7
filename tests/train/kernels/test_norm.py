from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from nanopace.train.kernels.fp8 import FP8, FP8_GRADIENT
from nanopace.train.kernels.norm import (
    layer_norm,
    layer_norm_backward,
    plain_layer_norm,
    plain_rms_norm,
    rms_norm,
    rms_norm_backward,
)

from .conftest import LIMITS, Draw, error

DTYPES = [torch.float32, torch.bfloat16]
SIZES = [(7, 24), (5, 80), (1, 33)]  # some with more rows than programs


class Norm(NamedTuple):
    forward: Callable[..., tuple[Tensor, Tensor]]
    backward: Callable[..., Tensor]
    plain: Callable[[Tensor], Tensor]


NORMS = pytest.mark.parametrize(
    "norm",
    [Norm(layer_norm, layer_norm_backward, plain_layer_norm), Norm(rms_norm, rms_norm_backward, plain_rms_norm)],
    ids=["layer", "rms"],
)


@NORMS
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_it_is_its_twin(draw: Draw, norm: Norm, dtype: torch.dtype, size: tuple[int, int]) -> None:
    x = draw(*size, scale=3).add(1).to(dtype)
    y, _ = norm.forward(x)
    assert y.dtype == dtype
    assert error(y, norm.plain(x)) < LIMITS[dtype]


def test_the_factors_are_what_made_it_so(draw: Draw) -> None:
    x = draw(5, 80, scale=3).add(1)
    torch.testing.assert_close(layer_norm(x)[1], (x.var(1, correction=0) + 1e-5).rsqrt())
    torch.testing.assert_close(rms_norm(x)[1], (x.square().mean(1) + 1e-6).rsqrt())


@NORMS
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("past", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_way_back_is_its_twin_s(
    draw: Draw, norm: Norm, dtype: torch.dtype, past: bool, size: tuple[int, int]
) -> None:
    """It needs only the norm's output, and adds to the gradient that bypasses the norm."""
    x = draw(*size, scale=3).add(1).to(dtype)
    d_y, d_past = draw(*size, dtype=dtype), draw(*size, dtype=dtype)
    leaf = x.float().clone().requires_grad_()
    norm.plain(leaf).backward(d_y.float())
    y, factor = norm.forward(x)
    x.zero_()
    given = d_past.clone() if past else None
    d_x = norm.backward(d_y, y, factor, given)
    assert d_x.dtype == dtype
    assert error(d_x, leaf.grad + d_past.float() if past else leaf.grad) < 2 * LIMITS[dtype]  # y is rounded, and d_x
    assert given is None or d_x is given


def test_a_row_of_equal_values_is_no_division_by_0(draw: Draw) -> None:
    x = torch.full_like(draw(2, 24), 5.0)
    y, factor = layer_norm(x)
    assert y.abs().max() < 1e-3  # 0 if the mean is exact; a card divides to within two units in the last place
    assert torch.isfinite(layer_norm_backward(draw(2, 24), y, factor, None)).all()


@NORMS
@pytest.mark.usefixtures("eight_bits")
@pytest.mark.parametrize("dtype", DTYPES)
def test_eight_bits_are_written_beside_it(draw: Draw, norm: Norm, dtype: torch.dtype) -> None:
    """With a scale that fits the largest possible value, even in a row with a single nonzero value."""
    x = draw(6, 80, scale=3).add(1).to(dtype)
    x[0] = 0
    x[0, 7] = 100
    y8 = torch.zeros_like(x, dtype=FP8)
    y, factor = norm.forward(x, y8)
    assert torch.equal(y8.view(torch.uint8), (y.float() * (448 / 80**0.5)).to(FP8).view(torch.uint8))
    assert 440 < y8.float().max() <= 448
    for found, expected in zip((y, factor), norm.forward(x), strict=True):
        assert torch.equal(found, expected)


@NORMS
@pytest.mark.usefixtures("eight_bits")
@pytest.mark.parametrize("past", [True, False])
def test_the_gradient_in_eight_bits_is_that_of_the_stream(draw: Draw, norm: Norm, past: bool) -> None:
    """Of the sum with the gradient that bypasses the norm, which the layer before needs."""
    x, d_y, d_past = draw(7, 24, scale=3).add(1), draw(7, 24), draw(7, 24)
    scale, d8 = torch.tensor(0.01, device=x.device), torch.zeros_like(x, dtype=FP8_GRADIENT)
    y, factor = norm.forward(x)
    d_x = norm.backward(d_y, y, factor, d_past.clone() if past else None, d8, scale)
    assert torch.equal(d_x, norm.backward(d_y, y, factor, d_past.clone() if past else None))
    assert error(d8.float() * scale, d_x) < 2**-3  # of two bits and a rounded third
    assert error(d8.float() * scale, d_x) > 1e-3
