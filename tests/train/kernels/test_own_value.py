from __future__ import annotations

import pytest
import torch

from nanopace.train.kernels.own_value import plain_without_own, without_own, without_own_backward

from .conftest import LIMITS, Draw, error

BATCH, LENGTH = 2, 3


@pytest.mark.parametrize(("heads", "head"), [(3, 10), (1, 8)])
@pytest.mark.parametrize("layout", ["as attention has it", "heads first"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_it_is_its_twin_and_so_is_the_way_back(
    draw: Draw, dtype: torch.dtype, layout: str, heads: int, head: int
) -> None:
    """Whatever order attention leaves its output in. The share's gradient is added to."""
    packed, share = draw(BATCH * LENGTH, 3 * heads * head, dtype=dtype), draw(heads)
    out = draw(BATCH, LENGTH, heads, head, dtype=dtype).transpose(1, 2)
    out = out.contiguous() if layout == "heads first" else out
    d_rows, d_share = draw(BATCH * LENGTH, heads * head, dtype=dtype), torch.ones_like(share)
    leaves = [each.float().clone().requires_grad_() for each in (out, packed, share)]
    exact = plain_without_own(*leaves)
    exact.backward(d_rows.float())
    d_out, d_packed, slope = (each.grad for each in leaves)
    assert slope is not None
    assert error(without_own(out, packed, share), exact) < LIMITS[dtype]
    before = out.clone(), packed.clone()
    rows, d_values = without_own_backward(d_rows, out, packed, share, d_share)
    assert torch.equal(out, before[0])
    assert torch.equal(packed, before[1])
    assert error(rows, exact) < LIMITS[dtype]
    assert error(d_rows, d_out.transpose(1, 2).reshape_as(d_rows)) < LIMITS[dtype]
    assert error(d_values, d_packed[:, 2 * heads * head :]) < LIMITS[dtype]
    assert error(d_share - 1, slope) < 2e-6


def test_a_value_of_zeros_takes_nothing_away(draw: Draw) -> None:
    out, packed, share = draw(1, 2, 2, 8), torch.zeros_like(draw(2, 48)), draw(2)
    assert torch.equal(without_own(out, packed, share), out.transpose(1, 2).reshape(2, 16))
