from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file

from nanopace.train.checkpoint.tensor_file import TensorFile

DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.int64, torch.uint8, torch.bool]
tensors = st.dictionaries(
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=12).filter(
        lambda name: name != "__metadata__"
    ),
    st.tuples(st.sampled_from(DTYPES), st.lists(st.integers(0, 5), max_size=3)),
    max_size=6,
)


@given(tensors)
def test_the_library_reads_what_was_staged(tmp_path_factory: pytest.TempPathFactory, shapes: dict) -> None:  # type: ignore[type-arg]
    values = {name: torch.randint(0, 2, tuple(shape)).to(dtype) for name, (dtype, shape) in shapes.items()}
    path = tmp_path_factory.mktemp("file") / "x.safetensors"
    file = TensorFile(values, pinned=False)
    file.stage(values)
    written = file.write(path)
    read = load_file(path)
    assert read.keys() == values.keys()
    assert all(torch.equal(read[name], values[name]) and read[name].dtype == values[name].dtype for name in values)
    assert written.bytes == path.stat().st_size
    assert written.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_staging_again_replaces(tmp_path: Path) -> None:
    file = TensorFile({"a": torch.zeros(3)}, pinned=False)
    for value in (1.0, 2.0):
        file.stage({"a": torch.full((3,), value)})
    file.write(tmp_path / "x")
    assert load_file(tmp_path / "x")["a"].tolist() == [2, 2, 2]
    assert not file.pinned


def test_without_pinned_memory_plain_memory_does(monkeypatch: pytest.MonkeyPatch) -> None:
    real = torch.empty

    def refuse(*args: object, pin_memory: bool = False, **rest: object) -> torch.Tensor:
        if pin_memory:
            raise RuntimeError("no more")
        return real(*args, **rest)  # type: ignore[call-overload, no-any-return]

    monkeypatch.setattr(torch, "empty", refuse)
    assert not TensorFile({"a": torch.zeros(3)}, pinned=True).pinned
