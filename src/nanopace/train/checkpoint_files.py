"""A checkpoint on the disk: a directory that is whole or is not there, and holds nothing that could run.

    out/checkpoints/step-00000500/
        state.json              step, config, random states, versions, and the checksums of the other files
        model.safetensors       the weights, with nanoGPT's names
        optimizer.safetensors   AdamW's averages, if training is to go on
        tokenizer.json          so that a sample needs nothing else

It is written under another name, synced, and renamed: the directory of that name is whole. Before anything is loaded,
state.json is held against its own checksum, every file against the one in state.json, and the names and shapes in the
files' headers against the model that state.json tells of.
docs/decisions/0009-checkpoints.md says why this is not torch.distributed.checkpoint.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from torch import Tensor

from nanopace.config import KNOBS
from nanopace.errors import InputError, NanopaceError
from nanopace.literals import Value
from nanopace.train.contents import OF_OPTIMIZERS, check_averages, check_shape, check_weights, header_of
from nanopace.train.model import ModelShape

FORMAT = 1
CHECKPOINTS = "checkpoints"  # in an out_dir
STATE, MODEL, OPTIMIZER = "state.json", "model.safetensors", "optimizer.safetensors"

_NAME = re.compile(r"step-(\d{8,})")
_PLAIN_NAME = re.compile(r"[a-zA-Z0-9_-][a-zA-Z0-9_.-]*")  # of a file in it: no folder, and nothing above
_LARGEST_STATE = 64 << 20  # bytes: random states and the last evaluation are some hundred KB
_PIECE = 8 << 20  # bytes that are read at once

Told = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Saved:
    """A checkpoint whose files are as they were written."""

    path: Path
    step: int
    config: Mapping[str, Value]
    shape: ModelShape
    tokenizer_hash: str | None
    state: Mapping[str, Any]  # all of state.json

    def weights(self, device: str = "cpu") -> dict[str, Tensor]:
        """By nanoGPT's names. A tied table has two of them, and lies in the file once."""
        weights = self._load(MODEL, device)
        return {"lm_head.weight": weights["transformer.wte.weight"], **weights}

    def optimizer(self, device: str = "cpu") -> dict[str, Tensor] | None:
        """AdamW's averages by "exp_avg.<weight>"; None in a checkpoint that was made to be used, not to go on."""
        return self._load(OPTIMIZER, device) if self.has_averages else None

    @property
    def has_averages(self) -> bool:
        return OPTIMIZER in self.state["files"] or self.sharded

    @property
    def best(self) -> tuple[int, float] | None:
        """Step and validation loss of the best evaluation so far. That of this very step came after it was saved."""
        best = self.state.get("best")
        try:
            return None if best is None else (int(best[0]), float(best[1]))
        except (TypeError, ValueError, KeyError, IndexError, OverflowError):
            raise not_a_state(self.path) from None

    @property
    def ours(self) -> bool:
        """Training wrote it, or could have: its step need not be saved again."""
        return True

    @property
    def sharded(self) -> bool:
        """Several ranks wrote it, each its part of every tensor (sharded.py)."""
        return MODEL not in self.state["files"]

    @property
    def windows(self) -> int:
        """How many training had read: as they were counted, or else as many as its steps held."""
        knobs = ("gradient_accumulation_steps", "batch_size")
        try:
            held = math.prod(int(self.config.get(name, KNOBS[name].default)) for name in knobs)
            return int(self.state.get("windows", self.step * held))
        except (TypeError, ValueError, OverflowError):
            raise not_a_state(self.path) from None

    def _load(self, name: str, device: str) -> dict[str, Tensor]:
        if self.sharded:
            from nanopace.train.reassemble import read_whole

            found = read_whole(self.path, lambda each: each.startswith(OF_OPTIMIZERS) == (name == OPTIMIZER))
            return {each: tensor.to(device) for each, tensor in found.items()}
        from safetensors.torch import load_file

        return load_file(self.path / name, device=device)


def not_a_state(checkpoint: Path) -> InputError:
    """A right checksum says nothing of the contents: somebody may have written them by hand."""
    return InputError("{path}: is not the state of a checkpoint", path=checkpoint / STATE)


def checkpoint_directories(out_dir: Path) -> list[Path]:
    """Every checkpoint of a run, newest first."""
    try:
        names = os.listdir(out_dir / CHECKPOINTS)
    except (FileNotFoundError, NotADirectoryError):
        return []
    newest_first = sorted(filter(_NAME.fullmatch, names), key=step_of, reverse=True)
    return [out_dir / CHECKPOINTS / name for name in newest_first]


def step_of(name: str) -> int:
    match = _NAME.fullmatch(name)
    assert match is not None
    return int(match[1])


def newest_whole(out_dir: Path) -> tuple[Saved | None, Sequence[NanopaceError]]:
    """The newest checkpoint that can be used, and why those after it cannot."""
    refused: list[NanopaceError] = []
    for directory in checkpoint_directories(out_dir):
        try:
            return verified(directory), refused
        except InputError as error:
            refused.append(error)
    return None, refused


def verified(directory: Path, told: Told | None = None) -> Saved:
    """Hold every file against its checksum, and its header against state.json. Nothing has been loaded before that.

    `told` hears of the bytes that were read, piece by piece.
    """
    state = read_state(directory)
    for name, expected in state["files"].items():
        _verify(directory, name, expected, told)
    saved = _saved(directory, state)
    _check_contents(saved)
    return saved


def _saved(directory: Path, state: dict[str, Any]) -> Saved:
    try:
        return Saved(
            path=directory,
            step=int(state["step"]),
            config={name: value for name, value in state["config"].items() if name in KNOBS},
            shape=ModelShape(**state["shape"]),
            tokenizer_hash=state["tokenizer"],
            state=state,
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise not_a_state(directory) from None


def _check_contents(saved: Saved) -> None:
    """Sharded ones are put together by torch.distributed.checkpoint, which knows where each part belongs.

    It reads whatever lies there, so nothing may lie there that was not listed, and so not verified.
    """
    if saved.sharded:
        unlisted = sorted({each.name for each in saved.path.glob("*.safetensors")} - saved.state["files"].keys())
        if unlisted or not any(name.endswith(".safetensors") for name in saved.state["files"]):
            name = unlisted[0] if unlisted else MODEL
            raise InputError("{path}: is not one of this checkpoint's files", path=saved.path / name)
        check_shape(saved.path / STATE, saved.shape)
        return
    weights = header_of(saved.path / MODEL)
    check_weights(saved.path / MODEL, weights, saved.shape)
    if OPTIMIZER in saved.state["files"]:
        check_averages(saved.path / OPTIMIZER, header_of(saved.path / OPTIMIZER), weights, saved.shape)


def read_state(directory: Path) -> dict[str, Any]:
    """What state.json says, held against its own checksum. Whether the other files are whole is not known yet."""
    path = directory / STATE
    with _opened(path) as file:
        data = file.read(_LARGEST_STATE + 1)
    try:
        state: dict[str, Any] = json.loads(data)
        checksum = state.pop("checksum")
        version, files = state["nanopace"], state["files"]
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
        raise not_a_state(directory) from None
    if isinstance(version, int) and version > FORMAT:
        raise InputError(
            "{path}: was written by a newer nanopace ({version}); update nanopace to read it",
            path=path,
            version=state.get("written_by"),
        )
    if checksum != checksum_of(state) or not isinstance(files, dict):
        raise InputError("{path}: is damaged: its checksum does not match", path=path)
    if not all(isinstance(each, dict) and {"bytes", "sha256"} <= each.keys() for each in files.values()):
        raise not_a_state(directory)
    return state


def _verify(directory: Path, name: str, expected: Mapping[str, Any], told: Told | None) -> None:
    path = directory / name
    if not _PLAIN_NAME.fullmatch(name):
        raise InputError("{path}: a checkpoint's files lie in its own directory", path=path)
    with _opened(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size != expected["bytes"]:
            raise InputError(
                "{path}: is damaged: {size} bytes where {expected} were written",
                path=path,
                size=size,
                expected=expected["bytes"],
            )
        digest = hashlib.sha256()
        while piece := file.read(_PIECE):
            digest.update(piece)
            if told is not None:
                told(len(piece))
    if digest.hexdigest() != expected["sha256"]:
        raise InputError("{path}: is damaged: its checksum does not match", path=path)


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """A file that lies here itself: behind a link could be anybody's, and a pipe would be waited for."""
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode):
            raise InputError("{path}: a checkpoint's files lie in its own directory", path=path)
        with open(path, "rb") as file:
            yield file
    except OSError as error:
        raise InputError("{path}: cannot be read: {reason}", path=path, reason=error.strerror) from None


def checksum_of(state: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode("ascii")).hexdigest()
