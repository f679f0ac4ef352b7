"""Every file parser, with its file changed anywhere into anything: our own error or none, and nothing else."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import io
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nanopace.config import KNOBS, TrainConfig
from nanopace.config_text import read_config_text, read_override
from nanopace.corpus.shards.corpus import open_corpus
from nanopace.corpus.shards.manifest import check_files, read_manifest
from nanopace.corpus.tokenizers.base import BYTE_OF_LETTER
from nanopace.corpus.tokenizers.bpe import TrainedBpe
from nanopace.corpus.tokenizers.tokenizer import bytes_tokenizer, chars, gpt2, load_tokenizer
from nanopace.diagnosis.diagnose import diagnose
from nanopace.errors import NanopaceError
from nanopace.sources.runs import open_runs
from nanopace.train.checkpoint.layout import verified
from nanopace.train.checkpoint.write import write_weights
from nanopace.train.formats.convert import open_pretrained
from nanopace.train.formats.huggingface import save_huggingface
from nanopace.train.formats.huggingface_files import read_safetensors
from nanopace.views.json import explain_json

from ..train.conftest import write_corpus
from ..train.tiny import tiny_weights

many = settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
some = settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])

odd_numbers = st.sampled_from(
    [-1, 0, 1, 2, 2**31, 2**53, 2**63, 2**64, 10**40, 10**400, 1e308, -0.0, math.inf, math.nan]
)
odd_texts = st.sampled_from(["", "..", "/", "../x", "a\0b", "\ud800", "é", "x" * 300, "1.0", "nan", "99.9", "True"])
leaves = st.none() | st.booleans() | odd_numbers | odd_texts | st.integers() | st.text(max_size=5)
anything = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(odd_texts, inner, max_size=3), max_leaves=6
)


def _places(document: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    inner = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    for key, value in inner:
        yield from _places(value, (*path, key))


def changed(data: st.DataObject, document: Any) -> Any:
    """The document with one to three of its parts replaced, removed or renamed."""
    document = copy.deepcopy(document)
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(list(_places(document))))
        if not path:
            if data.draw(st.integers(0, 9)) == 0:
                document = data.draw(anything)
            continue
        parent = document
        for key in path[:-1]:
            parent = parent[key]
        match data.draw(st.sampled_from(["replace", "replace", "remove", "rename"])):
            case "replace":
                parent[path[-1]] = data.draw(anything)
            case "remove":
                del parent[path[-1]]
            case _ if isinstance(parent, dict):
                parent[data.draw(odd_texts)] = parent.pop(path[-1])
    return document


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("parsers")


@pytest.fixture(scope="module")
def corpus(folder: Path) -> Path:
    return write_corpus(folder / "corpus")


@pytest.fixture(scope="module")
def checkpoint(folder: Path) -> Path:
    weights = tiny_weights()
    directory = folder / "run" / "checkpoints" / "step-00000007"
    config = {"learning_rate": 0.1, "out_dir": "out", "compile": False}
    write_weights(directory, weights.shape, weights.weights, step=7, config=config, tokenizer=bytes_tokenizer())
    return directory


@pytest.fixture(scope="module")
def huggingface(folder: Path) -> Path:
    save_huggingface(folder / "model", tiny_weights())
    return folder / "model"


@contextlib.contextmanager
def replaced(path: Path, content: bytes) -> Iterator[None]:
    before = path.read_bytes()
    path.write_bytes(content)
    try:
        with contextlib.suppress(NanopaceError):
            yield
    finally:
        path.write_bytes(before)


@many
@given(data=st.data())
def test_a_manifest(data: st.DataObject, corpus: Path) -> None:
    path = corpus / "corpus.json"
    with replaced(path, json.dumps(changed(data, json.loads(path.read_text()))).encode()):
        check_files(corpus, read_manifest(corpus))
        open_corpus(corpus).check(300, 8)


TOKENIZERS: dict[str, Callable[[], Any]] = {
    "gpt2": gpt2,
    "bytes": bytes_tokenizer,
    "chars": lambda: chars("abc\n"),
    "bpe": lambda: TrainedBpe(list(BYTE_OF_LETTER), [("a", "b"), ("ab", "c")]),
}


@pytest.mark.parametrize("kind", TOKENIZERS)
@some
@given(data=st.data())
def test_a_tokenizer(data: st.DataObject, kind: str, folder: Path) -> None:
    TOKENIZERS[kind]().save(folder)
    path = folder / "tokenizer.json"
    with replaced(path, json.dumps(changed(data, json.loads(path.read_text()))).encode()):
        load_tokenizer(folder)


@many
@given(data=st.data())
def test_the_state_of_a_checkpoint(data: st.DataObject, checkpoint: Path) -> None:
    """With a correct checksum, which anybody can compute."""
    path = checkpoint / "state.json"
    state = json.loads(path.read_text())
    del state["checksum"]
    state = changed(data, state)
    if isinstance(state, dict):
        state["checksum"] = hashlib.sha256(json.dumps(state, sort_keys=True).encode("ascii")).hexdigest()
    with replaced(path, json.dumps(state).encode()):
        saved = verified(checkpoint)
        TrainConfig(**saved.config)  # type: ignore[arg-type]
        open_pretrained(checkpoint)


@some
@given(data=st.data())
def test_hugging_face_s_config(data: st.DataObject, huggingface: Path) -> None:
    path = huggingface / "config.json"
    with replaced(path, json.dumps(changed(data, json.loads(path.read_text()))).encode()):
        open_pretrained(huggingface).model()


@some
@given(data=st.data())
def test_the_header_of_safetensors(data: st.DataObject, huggingface: Path) -> None:
    path = huggingface / "model.safetensors"
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.dumps(changed(data, json.loads(content[8 : 8 + length]))).encode()
    said = data.draw(st.sampled_from([len(header), len(header) + 8, 0, 1 << 40, 1 << 60, (1 << 64) - 1]))
    with replaced(path, said.to_bytes(8, "little") + header + content[8 + length :]):
        dict(read_safetensors(path))
        open_pretrained(huggingface)


def events() -> list[dict[str, Any]]:
    known: list[dict[str, Any]] = [
        {"event": "run", "ledger": "1.0", "started": "", "nanopace": "0", "config": {"n_layer": 2}}
    ]
    known += [
        {"event": "step", "iteration": n, "ms": 100.0 + n % 3, "loss": 3.5, "at_ms": 100.0 * n} for n in range(12)
    ]
    known += [
        {"event": "eval", "iteration": 12, "val": 3.0, "train": 3.1, "ms": 10.0},
        {"event": "checkpoint", "iteration": 12, "stall_ms": 1.0, "background_ms": 5.0, "path": "x"},
        {"event": "gpu", "iteration": 12, "watts": 100.0, "sm_mhz": 1000.0, "throttle": "power"},
        {"event": "resume", "iteration": 12, "path": "x"},
        {"event": "end", "reason": "finished", "wall_ms": 5000.0, "energy_kwh": 0.1},
    ]
    return known


@many
@given(data=st.data())
def test_a_ledger(data: st.DataObject) -> None:
    found = changed(data, events())
    lines = [json.dumps(event) for event in found] if isinstance(found, list) else [json.dumps(found)]
    with contextlib.suppress(NanopaceError):
        runs = open_runs(io.BytesIO("\n".join(lines).encode()))
        assert json.loads(explain_json([diagnose(run) for run in runs]))


names = st.sampled_from([*list(KNOBS)[:20], "x", "y", "learning_rte"])
values = st.recursive(
    st.sampled_from(
        ["1", "0", "-1", "2.5", "1e308", "1e999", "'a'", "True", "None", "x", "y", "9" * 30, "0x_ff", "'\\x00'"]
    ),
    lambda inner: st.tuples(inner, st.sampled_from(["+", "*", "**", "/", "//", "%", "-", "<<", ","]), inner).map(
        lambda parts: f"({parts[0]} {parts[1]} {parts[2]})"
    ),
    max_leaves=8,
)


@many
@given(st.lists(st.tuples(names, values).map(" = ".join), max_size=8), st.booleans())
def test_a_config(lines: list[str], to_train: bool) -> None:
    with contextlib.suppress(NanopaceError):
        found = read_config_text("\n".join(lines), "c.py", to_train=to_train)
        assert all(value == KNOBS[name].fitted(value) for name, value in found.items() if name in KNOBS)
        assert TrainConfig(**{name: value for name, value in found.items() if name in KNOBS})  # type: ignore[arg-type]
    for line in lines:
        with contextlib.suppress(NanopaceError):
            read_override(line)


def test_what_is_changed_was_right_before(corpus: Path, checkpoint: Path, huggingface: Path) -> None:
    """Otherwise all of the above would be refused right away."""
    assert open_corpus(corpus).name == "tiny"
    assert asdict(verified(checkpoint).shape) == asdict(tiny_weights().shape)
    assert open_pretrained(huggingface).step == 7
    assert len(open_runs(io.BytesIO("\n".join(map(json.dumps, events())).encode()))[0].rows) == 12
