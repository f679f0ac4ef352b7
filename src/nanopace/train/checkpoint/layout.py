"""A checkpoint on disk: a directory that is complete or absent, and contains no code.

    out/checkpoints/step-00000500/
        state.json              step, config, random states, versions, and the checksums of the other files
        model.safetensors       the weights, with nanoGPT's names
        optimizer.safetensors   AdamW's averages, needed only to resume
        tokenizer.json          so that sampling needs nothing else

It is written under another name, synced, and renamed, so a directory with this name is complete. Before anything is
loaded, state.json is checked against its own checksum, every file against its checksum in state.json, and the names and
shapes in the files' headers against the model that state.json describes.
docs/decisions/0009-checkpoints.md explains why this is not torch.distributed.checkpoint.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

from torch import Tensor

from nanopace.config import KNOBS
from nanopace.corpus.tokenizers.base import TOKENIZER_FILE
from nanopace.corpus.tokenizers.tokenizer import load_tokenizer
from nanopace.errors import InputError, NanopaceError, unreadable
from nanopace.files import open_own, takes_much_memory
from nanopace.literals import Value
from nanopace.train.checkpoint.headers import check_averages, check_weights, header_of
from nanopace.train.checkpoint.reassemble import full_header, read_full
from nanopace.train.checkpoint.state_checks import wrong_field
from nanopace.train.checkpoint.tensor_file import PIECE
from nanopace.train.models.gpt2 import ModelShape
from nanopace.train.models.weight_shapes import without_unlisted
from nanopace.train.optim.optimizer import STATE_PREFIXES

FORMAT = 1
CHECKPOINTS = "checkpoints"  # in an out_dir
NANOGPT_FILE = "ckpt.pt"  # in nanoGPT's
STATE, MODEL, OPTIMIZER = "state.json", "model.safetensors", "optimizer.safetensors"

_TENSORS = ".safetensors"
_NAME = re.compile(r"step-([0-9]{8}|[1-9][0-9]{8,17})")  # one name per step
_PLAIN_NAME = re.compile(r"[a-zA-Z0-9_-][a-zA-Z0-9_.-]*")  # a file name, not a path
_LARGEST_STATE = 16 << 20  # bytes: random states and the last evaluation take a few hundred KB
_LONGEST_VERSION = 60  # letters
# The ingredients of recipe fast in checkpoints that do not list theirs.
_UNLISTED = ("muon", "normuon", "trapezoid", "rope", "qk_norm", "relu2", "soft_cap", "value_embeddings")
_MOST_REFUSED = 20  # reported one by one

OnBytes = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Saved:
    """An intact checkpoint."""

    path: Path
    step: int
    config: Mapping[str, Value]
    shape: ModelShape
    tokenizer_hash: str | None
    state: Mapping[str, Any]  # all of state.json

    def weights(self) -> dict[str, Tensor]:
        """The weights by nanoGPT's names. The tied embedding has two names, but the file stores it once."""
        weights = self._load(MODEL)
        return {"lm_head.weight": weights["transformer.wte.weight"], **weights}

    def optimizer(self) -> dict[str, Tensor] | None:
        """AdamW's averages by "exp_avg.<weight>"; None if the checkpoint has only weights, and so cannot resume."""
        return self._load(OPTIMIZER) if self.has_averages else None

    @property
    def has_averages(self) -> bool:
        return OPTIMIZER in self.state["files"] or self.sharded

    @property
    def best(self) -> tuple[int, float] | None:
        """Step and validation loss of the best evaluation before the save. This step's own came after it."""
        best = self.state.get("best")
        return None if best is None else (int(best[0]), float(best[1]))

    @property
    def ours(self) -> bool:
        """Whether it has our format, so that its step need not be saved again. A nanoGPT checkpoint does not."""
        return True

    @property
    def sharded(self) -> bool:
        """Whether several ranks wrote it, each one its part of every tensor (sharded.py)."""
        return MODEL not in self.state["files"]

    @property
    def windows(self) -> int:
        """How many windows training had read. Old checkpoints lack the count: then steps times windows per step."""
        knobs = ("gradient_accumulation_steps", "batch_size")
        held = math.prod(int(self.config.get(name, KNOBS[name].default)) for name in knobs)
        return int(self.state.get("windows", self.step * held))

    def _load(self, name: str) -> dict[str, Tensor]:
        if self.sharded:
            return read_full(self.path, lambda each: each.startswith(STATE_PREFIXES) == (name == OPTIMIZER))
        from safetensors.torch import load_file

        return load_file(self.path / name)


def not_a_state(checkpoint: Path) -> InputError:
    """The error for contents that make no sense despite a correct checksum: they may have been written by hand."""
    return InputError("{path}: is not the state of a checkpoint", path=checkpoint / STATE)


def checkpoint_directories(out_dir: Path) -> list[Path]:
    """Every checkpoint of a run, newest first."""
    try:
        names = os.listdir(out_dir / CHECKPOINTS)
    except (FileNotFoundError, NotADirectoryError):
        return []
    newest_first = sorted(filter(_NAME.fullmatch, names), key=lambda name: (len(name), name), reverse=True)
    return [out_dir / CHECKPOINTS / name for name in newest_first]


def step_of(name: str) -> int:
    match = _NAME.fullmatch(name)
    assert match is not None
    return int(match[1])


def newest_intact(out_dir: Path) -> tuple[Saved | None, Sequence[NanopaceError]]:
    """The newest intact checkpoint, and what is wrong with the newer ones."""
    refused: list[NanopaceError] = []
    saved, more = None, 0
    for directory in checkpoint_directories(out_dir):
        try:
            saved = verified(directory)
            break
        except InputError as error:
            if len(refused) < _MOST_REFUSED:
                refused.append(error)
            else:
                more += 1
    if more:
        refused.append(
            InputError("{path}: {more} more checkpoints cannot be used", path=out_dir / CHECKPOINTS, more=more)
        )
    return saved, refused


def verified(directory: Path, on_bytes: OnBytes | None = None) -> Saved:
    """Check every file against its checksum, and its header against state.json, before anything is loaded.

    `on_bytes` is called with the number of bytes in each piece read.
    """
    state = read_state(directory)
    for name, expected in state["files"].items():
        _verify(directory, name, expected, on_bytes)
    saved = _saved(directory, state)
    _check_contents(saved)
    return saved


def _saved(directory: Path, state: dict[str, Any]) -> Saved:
    config = {name: KNOBS[name].fitted(value) for name, value in state["config"].items() if name in KNOBS}
    saved = Saved(
        path=directory,
        step=state["step"],
        config={name: value for name, value in config.items() if value is not None},
        shape=_shape(directory / STATE, state),
        tokenizer_hash=state["tokenizer"],
        state=state,
    )
    if (
        directory.parent.name == CHECKPOINTS
        and _NAME.fullmatch(directory.name)
        and step_of(directory.name) != saved.step
    ):
        raise InputError(
            "{path}: is of step {step}, which is not the one in its directory's name",
            path=directory / STATE,
            step=saved.step,
        )
    return saved


def _shape(path: Path, state: Mapping[str, Any]) -> ModelShape:
    shape = ModelShape(**state["shape"])
    if shape.recipe == "gpt2":
        return shape
    written = state.get("ingredients", [name for name in _UNLISTED if name not in shape.without.split(",")])
    return replace(shape, without=without_unlisted(path, shape.recipe, written))


def _check_contents(saved: Saved) -> None:
    """Raise unless the files hold exactly the tensors of the model that state.json describes.

    torch.distributed.checkpoint reads every file in the directory, so a file that is not listed, and therefore not
    verified, is refused.
    """
    path, files = saved.path, saved.state["files"]
    listed = {name for name in files if name.endswith(_TENSORS)}
    strange = {each.name for each in path.glob(f"*{_TENSORS}")} - listed
    if not saved.sharded:
        strange |= listed - {MODEL, OPTIMIZER}
    if strange or not listed:
        name = min(strange, default=MODEL)
        raise InputError("{path}: is not one of this checkpoint's files", path=path / name)
    if saved.sharded:
        of_weights = of_averages = path
        tensors = full_header([path / name for name in sorted(listed)])
        weights = {name: each for name, each in tensors.items() if not name.startswith(STATE_PREFIXES)}
        averages = {name: each for name, each in tensors.items() if name not in weights}
    else:
        of_weights, of_averages = path / MODEL, path / OPTIMIZER
        weights = header_of(of_weights)
        averages = header_of(of_averages) if saved.has_averages else {}
    check_weights(of_weights, weights, saved.shape)
    if saved.has_averages:
        check_averages(of_averages, averages, saved.shape)
    if TOKENIZER_FILE in files:
        _check_tokenizer(saved)


def _check_tokenizer(saved: Saved) -> None:
    tokenizer = load_tokenizer(saved.path)
    if tokenizer is None or tokenizer.hash != saved.tokenizer_hash or tokenizer.vocab_size > saved.shape.vocab_size:
        raise InputError("{path}: does not belong to the weights next to it", path=saved.path / TOKENIZER_FILE)


def read_state(directory: Path) -> dict[str, Any]:
    """The content of state.json, checked against its own checksum and field by field. Ignores the other files."""
    path = directory / STATE
    with _opened(path) as file:
        data = file.read(_LARGEST_STATE)
    try:
        state: dict[str, Any] = {} if takes_much_memory(data) else json.loads(data)
        checksum = state.pop("checksum")
        version, files, right = state["nanopace"], state["files"], checksum_of(state)
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
        raise not_a_state(directory) from None
    if type(version) is int and version > FORMAT:
        raise InputError(
            "{path}: was written by a newer nanopace ({version}); update nanopace to read it",
            path=path,
            version=str(state.get("written_by"))[:_LONGEST_VERSION],
        )
    if checksum != right or not isinstance(files, dict):
        raise InputError("{path}: is damaged: its checksum does not match", path=path)
    field = "nanopace" if type(version) is not int or version < 1 else wrong_field(state)
    if field is not None:
        raise InputError("{path}: is not the state of a checkpoint: its {field} is impossible", path=path, field=field)
    return state


def _verify(directory: Path, name: str, expected: Mapping[str, Any], on_bytes: OnBytes | None) -> None:
    path = directory / name
    if not _PLAIN_NAME.fullmatch(name):
        raise InputError("{path}: a checkpoint's files must be in its own directory", path=path)
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
        while piece := file.read(PIECE):
            digest.update(piece)
            if on_bytes is not None:
                on_bytes(len(piece))
    if digest.hexdigest() != expected["sha256"]:
        raise InputError("{path}: is damaged: its checksum does not match", path=path)


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """Open only a regular file in this directory: a link may point anywhere, and opening a pipe would block."""
    try:
        with open(open_own(path, os.O_RDONLY), "rb") as file:
            yield file
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EINVAL, errno.EISDIR, errno.ENXIO):
            raise InputError("{path}: a checkpoint's files must be in its own directory", path=path) from None
        raise unreadable(path, error) from None


def checksum_of(state: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode("ascii")).hexdigest()
