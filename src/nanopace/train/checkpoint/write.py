"""Writes and removes checkpoints, under another name until they are complete or gone."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch import Tensor

from nanopace.corpus.tokenizers.tokenizer import Tokenizer
from nanopace.files import discard, make_directory, sync_directory
from nanopace.knob_values import listed
from nanopace.literals import Value
from nanopace.train.checkpoint.layout import FORMAT, MODEL, OPTIMIZER, STATE, checksum_of
from nanopace.train.checkpoint.tensor_file import TensorFile, Written
from nanopace.train.models.gpt2 import ModelShape

_REPLACED = ".replaced"


def write_checkpoint(
    directory: Path, files: Mapping[str, TensorFile], state: Mapping[str, Any], tokenizer: Tokenizer | None
) -> int:
    """Write a checkpoint under another name, sync it, and rename it. Returns its size in bytes."""
    with new_checkpoint(directory) as temporary:
        written = {name: file.write(temporary / name) for name, file in files.items()}
        return finish_checkpoint(temporary, directory, written, state, tokenizer)


@contextmanager
def new_checkpoint(directory: Path) -> Iterator[Path]:
    """An empty directory under another name, removed if the block fails.

    The name is random, so that another run in this directory cannot write into ours.
    """
    temporary = directory.with_name(f".{directory.name}.{secrets.token_hex(4)}.writing")
    make_directory(directory.parent)
    temporary.mkdir()
    try:
        yield temporary
    except BaseException:
        discard(temporary)
        raise


def finish_checkpoint(
    temporary: Path,
    directory: Path,
    written: Mapping[str, Written],
    state: Mapping[str, Any],
    tokenizer: Tokenizer | None,
) -> int:
    """After the tensor files are written and synced: add the tokenizer and state.json, and rename the directory."""
    written = dict(written)
    if tokenizer is not None:
        tokenizer.save(temporary)
        written["tokenizer.json"] = measure(temporary / "tokenizer.json")
    _write_state(temporary / STATE, {**state, "files": {name: asdict(each) for name, each in written.items()}})
    sync_directory(temporary)
    _put(temporary, directory)
    return sum(each.bytes for each in written.values())


def _put(temporary: Path, directory: Path) -> None:
    """Give a complete checkpoint its name. An earlier one of the same step is removed only after that; if the process
    is killed in between, `sweep` restores its name."""
    replaced = directory.with_name(f".{directory.name}{_REPLACED}")
    if os.path.lexists(directory):
        discard(replaced)
        os.rename(directory, replaced)
    try:
        os.rename(temporary, directory)
    except OSError:
        if os.path.lexists(replaced):
            os.rename(replaced, directory)
        raise
    sync_directory(directory.parent)
    discard(replaced)


def write_weights(
    directory: Path,
    shape: ModelShape,
    weights: Mapping[str, Tensor],
    *,
    step: int,
    config: Mapping[str, Value],
    tokenizer: Tokenizer | None,
    averages: Mapping[str, Tensor] | None = None,
    more: Mapping[str, Any] | None = None,
) -> None:
    """Write weights from elsewhere as a checkpoint to sample from, evaluate or finetune; with averages, to resume.

    `more` is added to state.json.
    """
    once = {name: each for name, each in weights.items() if name != "lm_head.weight"}  # tied to the embedding
    files = {MODEL: _staged(once)} | ({} if averages is None else {OPTIMIZER: _staged(averages)})
    state = {**describe(shape, step=step, config=config, tokenizer=tokenizer), **(more or {})}
    write_checkpoint(directory, files, state, tokenizer)


def _staged(tensors: Mapping[str, Tensor]) -> TensorFile:
    file = TensorFile(tensors, pinned=False)
    file.stage(tensors)
    return file


def describe(
    shape: ModelShape, *, step: int, config: Mapping[str, Value], tokenizer: Tokenizer | None
) -> dict[str, Any]:
    """The part of state.json that every checkpoint has."""
    from nanopace.version import __version__

    return {
        "nanopace": FORMAT,
        "written_by": __version__,
        "step": step,
        "shape": asdict(shape),
        "ingredients": listed(shape.recipe, shape.without),
        "config": dict(config),
        "tokenizer": None if tokenizer is None else tokenizer.hash,
    }


def remove_checkpoint(directory: Path) -> None:
    """Rename it first, so that a half-removed directory is never mistaken for a checkpoint."""
    condemned = directory.with_name(f".{directory.name}.removing")
    discard(condemned)
    os.rename(directory, condemned)
    sync_directory(directory.parent)
    discard(condemned)


def sweep(out_dir: Path) -> None:
    """Remove whatever a killed process was writing or removing, and restore what it was replacing."""
    folder = out_dir / "checkpoints"
    if not folder.is_dir():
        return
    for name in os.listdir(folder):
        if not name.startswith(".step-"):
            continue
        own = folder / name[1:].removesuffix(_REPLACED)
        if name.endswith(_REPLACED) and not own.exists():
            os.rename(folder / name, own)
        elif name.endswith((".writing", ".removing", _REPLACED)):
            discard(folder / name)


def _write_state(path: Path, state: dict[str, Any]) -> None:
    state["checksum"] = checksum_of(state)
    with open(path, "x", encoding="ascii") as file:
        json.dump(state, file, indent=1)
        file.flush()
        os.fsync(file.fileno())


def measure(path: Path) -> Written:
    with open(path, "rb") as file:
        return Written(os.fstat(file.fileno()).st_size, hashlib.file_digest(file, "sha256").hexdigest())
