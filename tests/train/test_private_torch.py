"""torch's private names, which may disappear: each is used in one place, with a plain fallback that gives the same."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch

import nanopace.train
from nanopace.train.private_torch import (
    cudnn_attention,
    deterministic_algorithms,
    gradients_of,
    scaled_mm,
    subtract_all,
    zero_all,
)

TRAIN = Path(nanopace.train.__file__).parent
_GUARDED = {"private_torch.py", "out_of_memory.py", "warm_start.py"}


def test_private_names_are_in_one_place() -> None:
    asks = re.compile(r"^(?!.*\"\"\").*(torch(\.\w+)*\._[a-z]|from torch[\w.]*\._)", re.MULTILINE)
    found = {path.relative_to(TRAIN).as_posix() for path in TRAIN.rglob("*.py") if asks.search(path.read_text())}
    assert found == _GUARDED


def gradients() -> tuple[torch.Tensor, ...]:
    a, b = (torch.arange(1.0, 5.0).view(2, 2).requires_grad_() for _ in range(2))
    found = gradients_of((a, b), a @ b, torch.ones(2, 2))
    assert a.grad is None
    return found


def test_without_them_all_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    before = gradients()
    for name in ("_foreach_zero_", "_foreach_sub_", "_scaled_mm"):
        monkeypatch.delattr(torch, name)
    monkeypatch.setattr(torch.autograd, "Variable", object)
    assert all(torch.equal(a, b) for a, b in zip(gradients(), before, strict=True))
    few = [torch.ones(2), torch.ones(3)]
    subtract_all(few, [torch.full((2,), 3.0), torch.ones(3)])
    assert [each.tolist() for each in few] == [[-2.0, -2.0], [0.0, 0.0, 0.0]]
    zero_all(few)
    assert not any(each.any() for each in few)
    with pytest.raises(RuntimeError, match="8 bits"):  # as where a card cannot: bfloat16 is taken
        scaled_mm(few[0], few[0], few[0], few[0], fast=True)


def test_with_them_too() -> None:
    few = [torch.ones(2), torch.ones(3)]
    subtract_all(few, [torch.full((2,), 3.0), torch.ones(3)])
    assert [each.tolist() for each in few] == [[-2.0, -2.0], [0.0, 0.0, 0.0]]
    zero_all(few)
    assert not any(each.any() for each in few)


def test_attention_that_a_device_or_a_torch_lacks_raises_what_the_choice_expects(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = torch.randn(1, 2, 8, 4)
    for _ in range(2):
        with pytest.raises(RuntimeError):
            cudnn_attention(x, x, x, None)
        monkeypatch.setattr(torch.ops, "aten", object())


def test_algorithms_are_as_before_afterwards_whatever_happens() -> None:
    settings: Any = torch.utils.deterministic
    before = settings.fill_uninitialized_memory
    with deterministic_algorithms():
        assert torch.are_deterministic_algorithms_enabled()
        assert not torch.is_deterministic_algorithms_warn_only_enabled()
        assert not settings.fill_uninitialized_memory  # which would write every new tensor once more
    with pytest.raises(ZeroDivisionError), deterministic_algorithms():
        1 / 0  # noqa: B018
    assert not torch.are_deterministic_algorithms_enabled()
    assert settings.fill_uninitialized_memory == before
