from __future__ import annotations

import pytest
import torch

from nanopace.train.kernels.mixing import (
    Mixing,
    mix_norm,
    mix_norm_backward,
    norm,
    norm_backward,
    plain_mix_norm,
    plain_norm,
)

from .conftest import LIMITS, Draw, error

DTYPES = [torch.float32, torch.bfloat16]
SIZE = (7, 33)  # more rows than programs


def mixing_of(draw: Draw, dtype: torch.dtype, keep: float = 0.7, again: float = -0.4) -> Mixing:
    numbers = draw(4).fill_(3.0)
    numbers[0], numbers[1] = keep, again
    return Mixing(draw(*SIZE, dtype=dtype), *numbers.split(1))


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_norm_is_its_twin_and_so_is_the_way_back(draw: Draw, dtype: torch.dtype) -> None:
    x, d_y, past = draw(*SIZE, dtype=dtype, scale=3), draw(*SIZE, dtype=dtype), draw(*SIZE, dtype=dtype)
    leaf = x.float().clone().requires_grad_()
    plain_norm(leaf).backward(d_y.float())
    assert leaf.grad is not None
    y, factors = norm(x)
    assert y.dtype == dtype
    assert error(y, plain_norm(x)) < LIMITS[dtype]
    assert error(norm_backward(d_y, y, factors, None), leaf.grad) < 2 * LIMITS[dtype]
    expected = leaf.grad + past.float()
    assert norm_backward(d_y, y, factors, past) is past
    assert error(past, expected) < 2 * LIMITS[dtype]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("in_place", [True, False])
def test_mixing_is_its_twin(draw: Draw, dtype: torch.dtype, in_place: bool) -> None:
    x, mixing = draw(*SIZE, dtype=dtype, scale=3), mixing_of(draw, dtype)
    before = x.clone()
    stream, expected = plain_mix_norm(x, *mixing[:3])
    into = x if in_place else torch.empty_like(x)
    y, _ = mix_norm(x, mixing, into)
    assert error(into, stream) < LIMITS[dtype]
    assert error(y, expected) < 2 * LIMITS[dtype]
    assert in_place or torch.equal(x, before)


@pytest.mark.parametrize(("keep", "again"), [(0.7, -0.4), (-1.3, 0.0)])
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_way_back_is_its_twin_s(draw: Draw, dtype: torch.dtype, first: bool, keep: float, again: float) -> None:
    """Of the stream, of its beginning, and of the two numbers; what is there already is added to."""
    x, mixing = draw(*SIZE, dtype=dtype, scale=3), mixing_of(draw, dtype, keep, again)
    d_y, d_stream, so_far = (draw(*SIZE, dtype=dtype) for _ in range(3))
    leaves = [each.float().clone().requires_grad_() for each in (x, *mixing[:3])]
    stream, normed = plain_mix_norm(*leaves)
    torch.autograd.backward((stream, normed), (d_stream.float(), d_y.float()))
    d_x, d_start, d_keep, d_again = (each.grad for each in leaves)
    assert d_x is not None
    assert d_start is not None
    y, factors = mix_norm(x, mixing, x)
    x.zero_()
    given = None if first else so_far.clone()
    found = mix_norm_backward(d_y, y, factors, d_stream, mixing, given)
    limit = 2 * LIMITS[dtype]
    assert error(d_stream, d_x) < limit
    if first:
        assert error(found, d_start) < limit if again else not found.any()
    else:
        assert found is given
        assert error(found, d_start + so_far.float()) < limit
    scale = d_stream.float().norm() * leaves[0].detach().norm() * limit  # sums of what has either sign
    torch.testing.assert_close(mixing.d_keep - 3, d_keep, atol=float(scale), rtol=0)
    torch.testing.assert_close(mixing.d_again - 3, d_again, atol=float(scale), rtol=0)


@pytest.mark.parametrize("keep", [0.0, -1e-9])
def test_a_stream_of_which_nothing_is_kept_has_finite_gradients(draw: Draw, keep: float) -> None:
    x, mixing = draw(*SIZE), mixing_of(draw, torch.float32, keep)
    y, factors = mix_norm(x, mixing, x)
    d_x = draw(*SIZE)
    found = mix_norm_backward(draw(*SIZE), y, factors, d_x, mixing, None)
    assert all(bool(torch.isfinite(each).all()) for each in (d_x, found, mixing.d_keep, mixing.d_again))
