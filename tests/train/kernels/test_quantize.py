from __future__ import annotations

import pytest
import torch

from nanopace.train.kernels.fp8 import FP8
from nanopace.train.kernels.quantize import plain_quantize, quantize

from .conftest import Draw


@pytest.mark.usefixtures("eight_bits")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("forward", "backward"), [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("size", [(7, 24), (65, 130)])  # less than a tile, and a little more than some
def test_it_is_its_twin(draw: Draw, dtype: torch.dtype, forward: bool, backward: bool, size: tuple[int, int]) -> None:
    matrix = draw(*size, dtype=dtype, scale=0.02)
    scale = matrix.float().abs().max() / 448
    found, expected = (
        (
            torch.full(size, 1.0, device=matrix.device).to(FP8) if forward else None,
            torch.full(size[::-1], 1.0, device=matrix.device).to(FP8) if backward else None,
        )
        for _ in range(2)
    )
    quantize(matrix, scale, *found)
    plain_quantize(matrix, scale, *expected)
    for one, other in zip(found, expected, strict=True):
        assert (one is None) is (other is None)
        assert one is None or other is None or torch.equal(one.view(torch.uint8), other.view(torch.uint8))
