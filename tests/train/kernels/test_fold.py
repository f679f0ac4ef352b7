from __future__ import annotations

import pytest
import torch

from nanopace.train.kernels import fold as module
from nanopace.train.kernels.fold import fold, plain_unfold, unfold

from .conftest import LIMITS, Draw, error

SIZES = pytest.mark.parametrize("size", [(3, 24), (70, 33), (130, 260)])  # also more than a program takes


@SIZES
def test_folding_is_its_twin(draw: Draw, size: tuple[int, int]) -> None:
    weight, norm = draw(*size), draw(size[1])
    out = torch.full_like(weight, torch.nan, dtype=torch.bfloat16)
    fold(weight, norm, out)
    assert error(out, weight * norm) < LIMITS[torch.bfloat16]


@SIZES
@pytest.mark.parametrize("add", [False, True])
@pytest.mark.parametrize("enough", [4096, 16])  # rows: a program takes one tile, or several
def test_it_is_its_twin(
    draw: Draw, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int], add: bool, enough: int
) -> None:
    monkeypatch.setattr(module, "_ENOUGH_ROWS", enough)
    weight, folded, past, norm = draw(*size), draw(*size), draw(*size), draw(size[1])
    d_weight, d_norm = plain_unfold(weight, norm, folded)
    found = past.clone() if add else folded
    found_norm = torch.full_like(norm, torch.nan)
    unfold(weight, norm, folded, found, found_norm, add=add)
    assert error(found, d_weight + past if add else d_weight) < 1e-6
    assert error(found_norm, d_norm) < 1e-6


def test_what_is_not_finite_shows(draw: Draw, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step is skipped because of it."""
    monkeypatch.setattr(module, "_ENOUGH_ROWS", 10)
    weight, folded, norm = draw(20, 9), draw(20, 9), draw(9)
    folded[17, 4] = torch.nan
    d_norm = torch.empty_like(norm)
    unfold(weight, norm, folded, folded, d_norm, add=False)
    assert torch.isnan(folded).nonzero().tolist() == [[17, 4]]
    assert torch.isnan(d_norm).nonzero().tolist() == [[4]]
