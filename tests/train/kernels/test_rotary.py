from __future__ import annotations

import pytest
import torch
from torch import Tensor

from nanopace.train.kernels.rotary import plain_qk_norm_rope, qk_norm_rope, qk_norm_rope_backward
from nanopace.train.models.fast import rope_angles

from .conftest import LIMITS, Draw, error

BATCH, LENGTH = 2, 3
SIZES = [(3, 8), (1, 10)]  # heads, and the width of one
WAYS = [(True, True), (True, False), (False, True)]  # normed, turned


def angles_of(turned: bool, head: int, device: torch.device) -> tuple[Tensor, Tensor] | None:
    return rope_angles(torch.arange(LENGTH, device=device) + 1, head) if turned else None


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
