"""The kernels run on a card if there is one. Otherwise they are interpreted, which takes ten milliseconds per row: so
the shapes are tiny, and not powers of two or multiples of anything."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.util import find_spec

import pytest
import torch
from torch import Tensor

collect_ignore_glob = [] if find_spec("triton") else ["test_*.py"]

Draw = Callable[..., Tensor]


@pytest.fixture
def device() -> torch.device:
    if torch.cuda.is_available():
        return torch.device("cuda", 0)
    if os.environ.get("TRITON_INTERPRET") != "1":
        pytest.skip("a card that torch cannot use, and triton does not interpret")
    return torch.device("cpu")


@pytest.fixture
def draw(device: torch.device) -> Draw:
    """Normally distributed numbers, the same in every run."""
    generator = torch.Generator().manual_seed(0)

    def some(*size: int, dtype: torch.dtype = torch.float32, scale: float = 1.0) -> Tensor:
        return (torch.randn(size, generator=generator) * scale).to(device, dtype)

    return some


def error(found: Tensor, expected: Tensor) -> float:
    """The relative error over all values."""
    assert found.shape == expected.shape
    return float((found.detach().double() - expected.detach().double()).norm() / expected.detach().double().norm())


# Tolerance for rounding. A card rounds to the nearest bfloat16; the interpreter truncates, which is one bit worse.
LIMITS = {torch.float32: 2e-6, torch.bfloat16: 2**-7}
