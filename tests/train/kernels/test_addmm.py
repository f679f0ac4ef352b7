"""A matrix product adds exactly, and only where it should."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from nanopace.train.kernels.addmm import addmm_

CARD = torch.device("cuda", 0)


@pytest.fixture
def draw() -> Any:
    """Random numbers, on the card if there is one."""
    generator, device = torch.Generator().manual_seed(0), CARD if torch.cuda.is_available() else "cpu"
    return lambda *size, scale=1.0: (torch.randn(size, generator=generator) * scale).to(device)


def test_a_weight_s_gradient_is_added_up_in_float32(draw: Any) -> None:
    """From bfloat16 factors: what many micro-batches add must not be rounded away."""
    before = draw(40, 24, scale=100)
    gradient, expected = before.clone(), before.double()
    for _ in range(5):
        d_out, x = draw(9, 40).bfloat16(), draw(9, 24).bfloat16()
        addmm_(gradient, d_out.t(), x)
        expected += d_out.double().t() @ x.double()
    assert float((gradient - expected).norm() / expected.norm()) < 1e-6


def test_a_part_of_a_gradient_can_be_added_to(draw: Any) -> None:
    """Queries, keys and values come one after another."""
    slope, x = draw(9, 24).bfloat16(), draw(9, 24).bfloat16()
    gradient = torch.zeros((72, 24), device=x.device)
    addmm_(gradient[24:48], slope.t(), x)
    torch.testing.assert_close(gradient[24:48], slope.float().t() @ x.float())
    assert gradient[:24].count_nonzero() == gradient[48:].count_nonzero() == 0


def test_the_residual_stream_is_added_to_in_its_own_type(draw: Any) -> None:
    x, a, b = draw(5, 4).bfloat16(), draw(5, 7).bfloat16(), draw(7, 4).bfloat16()
    expected = x.double() + a.double() @ b.double()
    addmm_(x, a, b)
    torch.testing.assert_close(x.double(), expected, rtol=1e-2, atol=1e-2)
