from __future__ import annotations

import torch

from nanopace.train.kernels.linear import accumulate

from .conftest import Draw, error


def test_a_weight_s_gradient_is_added_up_in_float32(draw: Draw) -> None:
    """Of factors in bfloat16: what many micro-batches add must not be rounded away."""
    before, expected = draw(40, 24, scale=100), torch.zeros(40, 24, dtype=torch.float64)
    gradient = before.clone()
    for _ in range(5):
        d_out, x = draw(9, 40, dtype=torch.bfloat16), draw(9, 24, dtype=torch.bfloat16)
        accumulate(gradient, d_out, x)
        expected += d_out.double().t().cpu() @ x.double().cpu()
    assert error(gradient.cpu(), before.double().cpu() + expected) < 1e-6


def test_a_part_of_a_gradient_can_be_added_to(draw: Draw) -> None:
    """Queries, keys and values come one after the other."""
    gradient, slope = torch.zeros_like(draw(72, 24)), draw(9, 24, dtype=torch.bfloat16)
    x = draw(9, 24, dtype=torch.bfloat16)
    accumulate(gradient[24:48], slope, x)
    torch.testing.assert_close(gradient[24:48], slope.float().t() @ x.float())
    assert gradient[:24].count_nonzero() == gradient[48:].count_nonzero() == 0
