"""How a checkpoint is written, replaced and removed, file by file; tests/power does the same with power cuts."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch

from nanopace.corpus.tokenizers.tokenizer import bytes_tokenizer
from nanopace.train.checkpoint import write
from nanopace.train.checkpoint.layout import verified
from nanopace.train.checkpoint.tensor_file import TensorFile
from nanopace.train.checkpoint.write import describe, remove_checkpoint, sweep, write_checkpoint, write_weights
from nanopace.train.models.gpt2 import GPT

from .checkpoints import SHAPE, save


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def test_its_bytes_are_those_of_its_files(tmp_path: Path) -> None:
    """Except state.json. It does not exist before, and the temporary name is unique."""
    path = tmp_path / "out" / "checkpoints" / "step-00000001"
    file = TensorFile({"a": torch.zeros(3)}, pinned=False)
    file.stage({"a": torch.ones(3)})
    for tokenizer in (None, bytes_tokenizer()):
        size = write_checkpoint(path, {"a.safetensors": file}, {"step": 1}, tokenizer)
        expected = ["a.safetensors", "state.json", *(["tokenizer.json"] if tokenizer else [])]
        assert names(path) == expected
        assert size == sum((path / name).stat().st_size for name in expected if name != "state.json")
    assert names(path.parent) == ["step-00000001"]
    state = json.loads((path / "state.json").read_text())
    assert state["files"].keys() == {"a.safetensors", "tokenizer.json"}
    assert (path / "state.json").read_text() == json.dumps(state, indent=1)


def test_a_description_names_the_tokenizer() -> None:
    assert describe(SHAPE, step=1, config={}, tokenizer=None)["tokenizer"] is None
    assert describe(SHAPE, step=1, config={}, tokenizer=bytes_tokenizer())["tokenizer"] == bytes_tokenizer().hash


def test_weights_from_elsewhere(tmp_path: Path) -> None:
    """With averages, it can be resumed from; the tied table is stored once."""
    weights = GPT(SHAPE).state_dict()
    averages = {
        f"{what}.{name}": torch.zeros_like(each) if what != "step" else torch.tensor(5.0)
        for name, each in GPT(SHAPE).named_parameters()
        for what in ("exp_avg", "exp_avg_sq", "step")
    }
    path = tmp_path / "checkpoints" / "step-00000005"
    write_weights(path, SHAPE, weights, step=5, config={}, tokenizer=None, averages=averages, more={"windows": 12})
    saved = verified(path)
    assert (saved.windows, saved.has_averages) == (12, True)
    assert saved.weights().keys() == weights.keys()
    found = saved.optimizer()
    assert found.keys() == averages.keys()
    write_weights(path, SHAPE, weights, step=5, config={}, tokenizer=None)
    assert not verified(path).has_averages
    size = sum(each.numel() * 4 for name, each in weights.items() if name != "lm_head.weight")
    assert size <= (path / "model.safetensors").stat().st_size < size + 4000


def test_a_replacement_that_a_kill_left_is_none_in_the_way(tmp_path: Path) -> None:
    directory, _ = save(tmp_path, 2)
    for name in (".step-00000002.replaced", ".step-00000002.removing"):
        (directory.parent / name / "deep").mkdir(parents=True)
    save(tmp_path, 2)
    assert names(directory.parent) == [".step-00000002.removing", "step-00000002"]
    remove_checkpoint(directory)
    assert names(directory.parent) == []


def test_a_first_one_that_cannot_get_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(write.os, "rename", refuse)
    with pytest.raises(OSError, match="No space left"):
        save(tmp_path, 2)
    assert names(tmp_path / "checkpoints") == []


def test_a_sweep_takes_its_own_things_alone(tmp_path: Path) -> None:
    directory, _ = save(tmp_path, 2)
    folder = directory.parent
    for name in (
        ".mine", "mine.writing", ".step-00000003", "step-00000004.removing",  # not ours
        ".step-00000003.0123.writing", ".step-00000004.removing", ".step-00000002.replaced",
        ".step-00000001.replaced",  # nothing took its place
    ):  # fmt: skip
        (folder / name).mkdir()
    (folder / ".step-00000001.replaced" / "state.json").write_text("old")
    sweep(tmp_path)
    expected = [".mine", ".step-00000003", "mine.writing", "step-00000001", "step-00000002", "step-00000004.removing"]
    assert names(folder) == expected
    assert (folder / "step-00000001" / "state.json").read_text() == "old"
    assert verified(directory).step == 2
