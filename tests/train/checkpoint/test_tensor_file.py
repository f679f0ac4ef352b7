from __future__ import annotations

import hashlib
import io
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file

from nanopace.train.checkpoint import tensor_file
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


def test_the_file_is_laid_out_by_size_and_name(tmp_path: Path) -> None:
    """Larger types first, so that every value is aligned; then by name, so that two runs write the same bytes."""
    values = {
        "b": torch.ones(3),
        "a": torch.zeros(3),
        "wide": torch.ones(1, dtype=torch.float64),
        "narrow": torch.ones(5, dtype=torch.uint8),
    }
    file = TensorFile(values, pinned=False)
    file.stage(values)
    file.write(tmp_path / "x")
    data = (tmp_path / "x").read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    assert [name for name in header if name != "__metadata__"] == ["wide", "a", "b", "narrow"]
    assert (8 + size) % 64 == 0
    assert (8 + size) - (8 + len(data[8 : 8 + size].rstrip())) < 64
    assert len(data) == 8 + size + 8 + 12 + 12 + 5


@pytest.mark.parametrize("at_once", [1, 7, 1000])
def test_a_write_in_pieces_writes_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    """However many bytes the system accepts at a time."""
    values = {"a": torch.arange(300.0)}
    file = TensorFile(values, pinned=False)
    file.stage(values)
    whole = file.write(tmp_path / "whole")

    class Slow(io.FileIO):
        def write(self, data: Any) -> int:
            return super().write(memoryview(data)[:at_once])

    def slowly(path: Path, mode: str, buffering: int) -> Slow:
        assert buffering == 0  # else a sync would come before the last bytes
        return Slow(path, mode)

    monkeypatch.setattr(tensor_file, "PIECE", 500)
    monkeypatch.setattr(tensor_file, "open", slowly, raising=False)
    assert file.write(tmp_path / "pieces") == whole
    assert (tmp_path / "pieces").read_bytes() == (tmp_path / "whole").read_bytes()


def test_pinned_memory_is_asked_for_where_it_is_wanted_and_plain_memory_does(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, real = [], torch.empty

    def none_is_pinned(*args: object, pin_memory: bool = False, **rest: object) -> torch.Tensor:
        asked.append(pin_memory)
        if pin_memory:
            raise RuntimeError("no more")
        return real(*args, **rest)  # type: ignore[call-overload, no-any-return]

    monkeypatch.setattr(torch, "empty", none_is_pinned)
    assert not any(TensorFile({"a": torch.zeros(3)}, pinned=pinned).pinned for pinned in (True, False))
    assert asked == [True, False, False]
