"""A corpus of a few KB and a model of a few thousand weights: everything is real, and takes a second."""

from __future__ import annotations

import gc
import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from nanopace.config import Asked
from nanopace.corpus.shards.manifest import Manifest, ShardEntry, write_manifest
from nanopace.corpus.tokenizers.tokenizer import bytes_tokenizer
from nanopace.ledger import Event, NoteEvent
from nanopace.literals import Value
from nanopace.train.plan.device import has_fp8

torch.set_num_threads(1)  # the tests run in parallel
_freeze = gc.freeze

TINY: Mapping[str, Value] = {
    "device": "cpu",
    "compile": False,
    "n_layer": 2,
    "n_head": 2,
    "n_embd": 16,
    "block_size": 16,
    "batch_size": 4,
    "gradient_accumulation_steps": 2,
    "learning_rate": 1e-2,
    "min_lr": 1e-3,
    "warmup_iters": 3,
    "max_iters": 20,
    "lr_decay_iters": 20,
    "eval_interval": 5,
    "eval_iters": 2,
    "dropout": 0.1,
}


def write_corpus(directory: Path, *, train: int = 4000, val: int = 1000, seed: int = 0) -> Path:
    """Write text that can be learned: a few words, repeated in documents."""
    directory.mkdir(parents=True)
    tokenizer = bytes_tokenizer()
    tokenizer.save(directory)
    rng = np.random.default_rng(seed)
    words = [b"def ", b"self", b"return ", b"    ", b"\n", b"import "]
    entries = {}
    for split, count in (("train", train), ("val", val)):
        text = b"".join(words[each] for each in rng.integers(len(words), size=count))[:count]
        tokens = np.frombuffer(text, dtype=np.uint8).astype(np.uint16)
        tokens[::200] = tokenizer.end_of_text
        tokens.tofile(directory / f"{split}-00000.bin")
        digest = hashlib.sha256(tokens.tobytes()).hexdigest()
        entries[split] = (ShardEntry(f"{split}-00000.bin", count, count, digest, int(tokens.max()), 1),)
    write_manifest(
        directory,
        Manifest(
            "tiny",
            tokenizer.kind,
            tokenizer.hash,
            tokenizer.vocab_size,
            "uint16",
            entries["train"],
            entries["val"],
            True,
        ),
    )
    return directory


def pytest_collection_finish() -> None:
    """A training run collects garbage a few times, which takes a tenth of a second or more with all the objects of
    pytest and torch: freeze them."""
    gc.freeze = gc.unfreeze = lambda: None
    _freeze()


@pytest.fixture(scope="module", autouse=True)
def _frozen() -> None:
    """Freeze what was imported since, too."""
    _freeze()


class Recorder:
    """A listener that records events by name, as if each kind had a method, and the text of notes."""

    def __init__(self) -> None:
        self.said: list[tuple[str, Any]] = []

    def event(self, event: Event) -> None:
        getattr(self, event.name)(event.text if isinstance(event, NoteEvent) else event)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *what: self.said.append((name, what[0] if len(what) == 1 else what))

    def all(self, name: str) -> list[Any]:
        return [what for said, what in self.said if said == name]

    @property
    def losses(self) -> dict[int, float]:
        return {event.iteration: event.loss for event in self.all("step")}


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return write_corpus(tmp_path / "corpus")


@pytest.fixture(scope="session")
def shared_corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("ranks") / "corpus")


@pytest.fixture(scope="session")
def alone(shared_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The reference run for several processes: one process, without torchrun."""
    from nanopace.train.run import train

    from .processes import SHARED

    out_dir = tmp_path_factory.mktemp("alone") / "out"
    knobs = {**SHARED, "out_dir": str(out_dir), "dataset": str(shared_corpus)}
    train(Asked(given=knobs, files=("config.py",)), listener=Recorder())
    return out_dir


@pytest.fixture
def eight_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A card that supports 8 bits rounds as torch does. Triton's interpreter loses a carry: it turns 7.98 into 4."""
    if torch.cuda.is_available():
        if not has_fp8(torch.device("cuda")):
            pytest.skip("the card has no 8 bits")
        return
    if os.environ.get("TRITON_INTERPRET") != "1":
        pytest.skip("a card that torch cannot use, and triton does not interpret")
    tl = pytest.importorskip("triton.language")
    from triton.runtime import interpreter

    plain = interpreter._convert_float

    def convert(values: Any, source: Any, wanted: Any, rounding: Any) -> Any:
        eight = {tl.float8e4nv: torch.float8_e4m3fn, tl.float8e5: torch.float8_e5m2}.get(wanted)
        if eight is None:
            return plain(values, source, wanted, rounding)
        assert source == tl.float32
        return torch.from_numpy(values).to(eight).view(torch.uint8).numpy()

    monkeypatch.setattr(interpreter, "_convert_float", convert)
