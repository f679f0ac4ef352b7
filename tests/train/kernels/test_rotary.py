from __future__ import annotations

import pytest
import torch
from torch import Tensor

from nanopace.train.kernels.fp8 import FP8_GRADIENT
from nanopace.train.kernels.rotary import plain_qk_norm_rope, qk_norm_rope, qk_norm_rope_backward, shifted_keys
from nanopace.train.models.fast import rope_angles, shift_keys

from .conftest import LIMITS, Draw, error

BATCH, LENGTH = 2, 3
SIZES = [(3, 8), (1, 10)]  # heads, and the width of one
WAYS = [(True, True), (True, False), (False, True)]  # normed, turned


def angles_of(turned: bool, head: int, device: torch.device) -> tuple[Tensor, Tensor] | None:
    return rope_angles(torch.arange(LENGTH, device=device) + 1, head, half=False) if turned else None


@pytest.mark.parametrize(("heads", "head"), SIZES)
@pytest.mark.parametrize(("normed", "turned"), WAYS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_it_is_its_twin(draw: Draw, dtype: torch.dtype, normed: bool, turned: bool, heads: int, head: int) -> None:
    packed = draw(BATCH * LENGTH, 3 * heads * head, dtype=dtype, scale=3)
    angles = angles_of(turned, head, packed.device)
    expected = plain_qk_norm_rope(packed, BATCH, heads, angles, normed=normed)
    assert error(expected, packed) > 0.1
    values = packed[:, 2 * heads * head :].clone()
    qk_norm_rope(packed, BATCH, heads, angles, normed=normed)
    assert error(packed, expected) < LIMITS[dtype]
    assert torch.equal(packed[:, 2 * heads * head :], values)


@pytest.mark.parametrize("layout", ["as attention has it", "each its own", "not in a row"])
@pytest.mark.parametrize(("normed", "turned"), [*WAYS, (False, False)])
def test_the_way_back_is_its_twin_s(draw: Draw, normed: bool, turned: bool, layout: str) -> None:
    """Whatever order attention's backward pass leaves its gradients in."""
    heads, head = SIZES[0]
    packed = draw(BATCH * LENGTH, 3 * heads * head, scale=3)
    angles = angles_of(turned, head, packed.device)
    leaf = packed.clone().requires_grad_()
    d_out = draw(BATCH, LENGTH, 3, heads, head)
    plain_qk_norm_rope(leaf, BATCH, heads, angles, normed=normed).backward(d_out.view_as(packed))
    assert leaf.grad is not None
    factors = qk_norm_rope(packed, BATCH, heads, angles, normed=normed)
    slopes = [each.transpose(1, 2) for each in d_out.unbind(2)]
    if layout == "each its own":
        slopes = [slopes[0], slopes[1].contiguous(), slopes[2].transpose(0, 2).contiguous().transpose(0, 2)]
    elif layout == "not in a row":
        slopes = [each.mT.contiguous().mT for each in slopes]
    qk_norm_rope_backward(slopes, packed, factors, angles)
    assert error(packed, leaf.grad) < LIMITS[torch.float32]


@pytest.mark.parametrize(("heads", "head"), [*SIZES, (2, 2)])  # with a width of 2, all of a head rotates
def test_shifted_keys_are_their_twin_s(draw: Draw, heads: int, head: int) -> None:
    packed = draw(BATCH * LENGTH, 3 * heads * head)
    keys = packed.view(BATCH, LENGTH, 3, heads, head)[:, :, 1]
    assert torch.equal(shifted_keys(packed, BATCH, heads), shift_keys(keys))


@pytest.mark.usefixtures("eight_bits")
@pytest.mark.parametrize(("heads", "head"), SIZES)
def test_the_way_back_from_shifted_keys_with_more_for_the_values_and_in_8_bits(
    draw: Draw, heads: int, head: int
) -> None:
    packed, scale = draw(BATCH * LENGTH, 3 * heads * head, scale=3), torch.tensor(0.25)
    angles = angles_of(True, head, packed.device)
    leaf = packed.clone().requires_grad_()
    d_out, d_values = draw(BATCH, LENGTH, 3, heads, head), draw(BATCH * LENGTH, heads * head)
    q, k, v = plain_qk_norm_rope(leaf, BATCH, heads, angles, normed=True).view_as(d_out).unbind(2)
    torch.stack((q, shift_keys(k), v), 2).backward(d_out)
    leaf.grad[:, 2 * heads * head :] += d_values
    factors = qk_norm_rope(packed, BATCH, heads, angles, normed=True)
    d8 = torch.empty_like(packed, dtype=FP8_GRADIENT)
    slopes = [each.transpose(1, 2) for each in d_out.unbind(2)]
    scale = scale.to(packed.device)
    qk_norm_rope_backward(slopes, packed, factors, angles, shifted=True, d_values=d_values, d8=d8, scale=scale)
    assert error(packed, leaf.grad) < LIMITS[torch.float32]
    assert error(0.25 * d8.float(), leaf.grad) < 2**-3  # two bits and a rounded third
