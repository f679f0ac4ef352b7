from __future__ import annotations

import pytest
import torch

from nanopace.train.kernels.layer_norm import layer_norm, layer_norm_backward, plain_layer_norm

from .conftest import LIMITS, Draw, error

DTYPES = [torch.float32, torch.bfloat16]
SIZES = [(7, 24), (5, 80), (1, 33)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_it_is_its_twin(draw: Draw, dtype: torch.dtype, size: tuple[int, int]) -> None:
    x = draw(*size, scale=3).add(1).to(dtype)
    y, factor = layer_norm(x)
    assert y.dtype == dtype
    assert error(y, plain_layer_norm(x)) < LIMITS[dtype]
    torch.testing.assert_close(factor, (x.float().var(1, correction=0) + 1e-5).rsqrt())


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("past", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_way_back_is_its_twin_s(draw: Draw, dtype: torch.dtype, past: bool, size: tuple[int, int]) -> None:
    """It knows nothing but what the norm gave; and it is added to what goes past the norm."""
    x = draw(*size, scale=3).add(1).to(dtype)
    d_y, d_past = draw(*size, dtype=dtype), draw(*size, dtype=dtype)
    leaf = x.float().clone().requires_grad_()
    plain_layer_norm(leaf).backward(d_y.float())
    assert leaf.grad is not None
    y, factor = layer_norm(x)
    x.zero_()
    given = d_past.clone() if past else None
    d_x = layer_norm_backward(d_y, y, factor, given)
    assert d_x.dtype == dtype
    assert error(d_x, leaf.grad + d_past.float() if past else leaf.grad) < 2 * LIMITS[dtype]  # y is rounded, and d_x
    assert given is None or d_x is given


def test_a_row_of_equal_values_is_no_division_by_0(draw: Draw) -> None:
    x = torch.full_like(draw(2, 24), 5.0)
    y, factor = layer_norm(x)
    assert y.count_nonzero() == 0
    assert torch.isfinite(layer_norm_backward(draw(2, 24), y, factor, None)).all()
