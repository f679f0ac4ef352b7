"""Checkpoints with correct checksums but wrong contents: this is found before anything is loaded."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch

from nanopace.corpus.tokenizers.tokenizer import bytes_tokenizer
from nanopace.errors import InputError
from nanopace.train.checkpoint.layout import newest_intact, verified
from nanopace.train.checkpoint.write import write_weights
from nanopace.train.models.gpt2 import GPT

from .checkpoints import SHAPE, put, rewrite, save


@pytest.mark.parametrize(
    ("knob", "said"),
    [
        ("n_layer", 2),
        ("n_embd", 16),
        ("vocab_size", 300),
        ("block_size", 16),
        ("bias", False),
    ],
)
def test_another_size_is_found_by_the_headers(tmp_path: Path, knob: str, said: object) -> None:
    directory, _ = save(tmp_path, 2)
    save(tmp_path, 1)
    rewrite(directory, shape={**asdict(SHAPE), knob: said})
    with pytest.raises(InputError, match=r"step-00000002.*model\.safetensors: .*says"):
        verified(directory)
    saved, refused = newest_intact(tmp_path)
    assert (saved.step, len(refused)) == (1, 1)


@pytest.mark.parametrize(
    ("knob", "said"),
    [
        ("n_head", 3),
        ("n_layer", 10**12),
        ("n_embd", "8"),
        ("dropout", "no"),
        ("dropout", 1.5),
        ("activation", "relu"),
    ],
)
def test_a_size_that_no_model_has(tmp_path: Path, knob: str, said: object) -> None:
    directory, _ = save(tmp_path, 2)
    rewrite(directory, shape={**asdict(SHAPE), knob: said})
    with pytest.raises(InputError, match=r"step-00000002.state\.json: .*: its shape is impossible"):
        verified(directory)


def test_weights_that_are_none(tmp_path: Path) -> None:
    """Every checksum is correct, but a weight is missing or extra."""
    directory, model = save(tmp_path, 2)
    weights = {name: each for name, each in model.state_dict().items() if name != "lm_head.weight"}
    for name in ("transformer.wte.weight", "transformer.h.0.attn.c_attn.weight"):
        put(directory, "model.safetensors", {other: each for other, each in weights.items() if other != name})
        with pytest.raises(InputError, match=r"model\.safetensors: is not a GPT-2"):
            verified(directory)
    put(directory, "model.safetensors", {**weights, "more": torch.zeros(3)})
    with pytest.raises(InputError, match="it has a weight named more"):
        verified(directory)
    put(directory, "model.safetensors", weights)
    assert verified(directory).weights().keys() == model.state_dict().keys()
    put(directory, "optimizer.safetensors", {"exp_avg.transformer.wte.weight": torch.zeros(3)})
    with pytest.raises(InputError, match=r"optimizer\.safetensors: does not belong to the weights next to it"):
        verified(directory)


def test_a_header_that_is_none(tmp_path: Path) -> None:
    from nanopace.train.checkpoint.write import measure

    directory, _ = save(tmp_path, 2)
    (directory / "model.safetensors").write_bytes((1 << 60).to_bytes(8, "little") + b"{}")
    files = json.loads((directory / "state.json").read_text())["files"]
    rewrite(directory, files={**files, "model.safetensors": asdict(measure(directory / "model.safetensors"))})
    with pytest.raises(InputError, match=r"model\.safetensors: is damaged"):
        verified(directory)


@pytest.mark.parametrize("files", [{"model.safetensors": 3}, {"model.safetensors": {"bytes": 3}}, []])
def test_files_that_are_none(tmp_path: Path, files: object) -> None:
    directory, _ = save(tmp_path, 2)
    rewrite(directory, files=files)
    with pytest.raises(InputError, match=r"state\.json"):
        verified(directory)


@pytest.mark.parametrize(
    ("version", "said"),
    [
        (2, r"was written by a newer nanopace \(9{60}\); update"),
        (0, "nanopace is impossible"),
        (-1, "nanopace is impossible"),
        (True, "nanopace is impossible"),
        ("1", "nanopace is impossible"),
        (1.0, "nanopace is impossible"),
    ],
)
def test_a_version_that_is_none(tmp_path: Path, version: object, said: str) -> None:
    directory, _ = save(tmp_path, 2)
    rewrite(directory, nanopace=version, written_by="9" * 100)
    with pytest.raises(InputError, match=rf"state\.json: .*{said}"):
        verified(directory)


def test_what_a_state_says_of_training(tmp_path: Path) -> None:
    directory, _ = save(tmp_path, 2)
    saved = verified(directory)
    assert (saved.best, saved.ours, saved.sharded, saved.has_averages) == (None, True, False, False)
    assert saved.windows == 2 * 40 * 12  # nanoGPT's defaults
    rewrite(directory, windows=7, best=[1, 2.5], config={"batch_size": 3, "unknown": [], "learning_rate": 1})
    saved = verified(directory)
    assert (saved.windows, saved.best, saved.config) == (7, (1, 2.5), {"batch_size": 3, "learning_rate": 1.0})
    rewrite(directory, config={"batch_size": 3, "gradient_accumulation_steps": 5})
    state = {name: value for name, value in verified(directory).state.items() if name != "windows"}
    assert replace(verified(directory), state=state).windows == 30


def test_a_tokenizer_of_other_weights(tmp_path: Path) -> None:
    directory, _ = save(tmp_path, 2)
    rewrite(directory, tokenizer="another")
    with pytest.raises(InputError, match=r"tokenizer\.json: does not belong to the weights next to it"):
        verified(directory)
    small = replace(SHAPE, vocab_size=256)
    write_weights(directory, small, GPT(small).state_dict(), step=2, config={}, tokenizer=bytes_tokenizer())
    with pytest.raises(InputError, match=r"tokenizer\.json: does not belong to the weights next to it"):
        verified(directory)


def test_files_of_tensors_that_are_listed_and_no_part_of_it(tmp_path: Path) -> None:
    directory, _ = save(tmp_path, 2)
    put(directory, "more.safetensors", {"a": torch.zeros(1)})
    with pytest.raises(InputError, match=r"more\.safetensors: is not one of this checkpoint's files"):
        verified(directory)
    for name in ("more.safetensors", "model.safetensors"):
        (directory / name).unlink()
    rewrite(directory, files={})
    with pytest.raises(InputError, match=r"model\.safetensors: is not one of this checkpoint's files"):
        verified(directory)
