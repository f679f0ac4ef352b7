"""Names and shapes in the headers of tensor files, checked against the model they should belong to."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from nanopace.errors import InputError
from nanopace.train.checkpoint.headers import check_averages, check_weights, header_of, read_header
from nanopace.train.models.gpt2 import ModelShape
from nanopace.train.models.recipes import meta_model
from nanopace.train.optim.optimizer import state_shapes

GPT2 = ModelShape(n_layer=1, n_head=2, n_embd=8, vocab_size=257, block_size=8, bias=False)
FAST = replace(GPT2, recipe="fast")


def weights(shape: ModelShape) -> dict[str, Tensor]:
    return dict(meta_model(shape).named_parameters())


def test_a_header_is_read_without_values(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    save_file({"a": torch.zeros(2, 3), "b": torch.zeros((), dtype=torch.bfloat16)}, path)
    found = header_of(path)
    assert {name: (each.shape, each.dtype, each.device.type) for name, each in found.items()} == {
        "a": (torch.Size([2, 3]), torch.float32, "meta"),
        "b": (torch.Size([]), torch.bfloat16, "meta"),
    }
    assert read_header(path)[1] == {}
    save_file({"a": torch.zeros(1)}, path, metadata={"note": "x"})
    assert read_header(path)[1] == {"note": "x"}


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.uint8])
def test_a_tensor_that_no_weight_can_be(tmp_path: Path, dtype: torch.dtype) -> None:
    save_file({"a": torch.zeros(1, dtype=dtype)}, tmp_path / "x.safetensors")
    with pytest.raises(InputError, match=r"x\.safetensors: a is not a weight"):
        header_of(tmp_path / "x.safetensors")


def test_a_file_without_a_header(tmp_path: Path) -> None:
    (tmp_path / "x.safetensors").write_bytes(b"nothing")
    with pytest.raises(InputError, match=r"x\.safetensors: is damaged: "):
        header_of(tmp_path / "x.safetensors")


@pytest.mark.parametrize("shape", [GPT2, FAST], ids=lambda shape: shape.recipe)
def test_the_weights_are_those_of_the_model(shape: ModelShape) -> None:
    path = Path("x")
    check_weights(path, weights(shape), shape)
    for wrong in (replace(shape, n_embd=16), replace(shape, n_layer=2), FAST if shape is GPT2 else GPT2):
        with pytest.raises(InputError, match="x: "):
            check_weights(path, weights(shape), wrong)
    averages = {name: torch.empty(size, device="meta") for name, size in state_shapes(shape).items()}
    check_averages(path, averages, shape)
    for changed in ({}, {**averages, "more": torch.empty(1)}, {name: torch.empty(9) for name in averages}):
        with pytest.raises(InputError, match="x: does not belong to the weights next to it"):
            check_averages(path, changed, shape)
    with pytest.raises(InputError, match="is not a GPT-2: it lacks the tables" if shape is GPT2 else "x: "):
        check_weights(path, {}, shape)
