from __future__ import annotations

import pytest
import torch
from torch import Tensor

from nanopace.train.kernels import checksum
from nanopace.train.kernels.checksum import checksum_plan, checksums, plain_checksums

from .conftest import Draw


@pytest.fixture
def tensors(draw: Draw, monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """Of one program, of several, of a whole number of them, a single value, and one in the middle of another."""
    monkeypatch.setattr(checksum, "_WORDS", 16)
    stack = draw(3, 5)
    return [draw(7, 3), draw(4, 8), draw(1).squeeze(), draw(6, 2, dtype=torch.bfloat16), stack[1], draw(5, 100)]


def test_it_is_its_twin(tensors: list[Tensor]) -> None:
    found = checksums(tensors)
    assert found.dtype == torch.int64
    assert torch.equal(found, plain_checksums(tensors))
    assert torch.equal(checksums(tensors, checksum_plan(tensors)), found)


@pytest.mark.parametrize("bit", [0, 15, 22, 31])
def test_any_bit_of_any_tensor_changes_its_sum_and_no_other(tensors: list[Tensor], bit: int) -> None:
    for number, tensor in enumerate(tensors):
        before = checksums(tensors)
        words = tensor.view(-1).view(torch.int32)
        words[-1] ^= torch.tensor(1 << bit if bit < 31 else -(1 << 31), dtype=torch.int32, device=words.device)
        change = (checksums(tensors) - before).tolist()
        assert abs(change[number]) == 1 << bit
        assert [each for at, each in enumerate(change) if at != number] == [0] * (len(tensors) - 1)
