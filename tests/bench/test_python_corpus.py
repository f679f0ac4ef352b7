"""A corpus of this machine's Python files: each text once, in an order that does not depend on where the files are."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np
import pytest

import python_corpus
from nanopace.corpus.shards.corpus import open_corpus
from nanopace.corpus.tokenizers.bpe import TrainedBpe
from nanopace.corpus.tokenizers.nanogpt_meta import read_meta
from nanopace.corpus.tokenizers.tokenizer import load_tokenizer
from python_corpus import Document, limited, outermost


def _made(out: Path, *arguments: str | Path) -> str:
    command = [sys.executable, python_corpus.__file__, str(out), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The same texts in two folders; the second has other names, more copies, and files that are not Python."""
    first, second = tmp_path_factory.mktemp("first"), tmp_path_factory.mktemp("second")
    texts = [path.read_bytes() for path in sorted(Path(sysconfig.get_path("stdlib"), "json").glob("*.py"))]
    texts += [path.read_bytes() for path in sorted(Path(sysconfig.get_path("stdlib"), "email").glob("*.py"))]
    texts.append("END = '<|endoftext|>'  # größer\n".encode())
    for number, text in enumerate(texts):
        (first / f"a{number}.py").write_bytes(text)
        folder = second / str(number % 3)
        folder.mkdir(exist_ok=True)
        (folder / f"b{len(texts) - number}.pyi").write_bytes(text)
        (folder / f"copy{number}.py").write_bytes(text)
    (second / "latin.py").write_bytes("größer".encode("latin-1"))
    (second / "empty.py").write_bytes(b"\n")
    (second / "notes.txt").write_bytes(b"no source")
    (second / "gone.py").symlink_to(second / "nowhere")
    os.mkfifo(second / "pipe.py")
    return [first, second]


@pytest.mark.slow
def test_the_same_texts_give_the_same_tokens_wherever_they_lie(sources: list[Path], tmp_path: Path) -> None:
    first, second = (tmp_path / "a", tmp_path / "b")
    told = _made(first, "--roots", sources[0], "--vocab", 400, "--val", 0.3)
    _made(second, "--roots", sources[1], "--vocab", 400, "--val", 0.3)
    assert {path.name for path in first.iterdir()} == {"train.bin", "val.bin", "meta.pkl", "tokenizer.json"}
    for path in first.iterdir():
        assert path.read_bytes() == (second / path.name).read_bytes(), path.name
    corpus = open_corpus(first)
    assert f"train {corpus.train.tokens:,} tokens" in told
    assert isinstance(corpus.tokenizer, TrainedBpe)
    assert (corpus.tokenizer.vocab_size, read_meta(first / "meta.pkl").vocab_size) == (401, 448)
    assert sorted(_documents(first)) == sorted(path.read_text() for path in sources[0].iterdir())
    again = tmp_path / "again"
    _made(again, "--roots", *sources, "--tokenizer", first / "tokenizer.json", "--val", 0.3)
    assert (again / "train.bin").read_bytes() == (first / "train.bin").read_bytes()


def _documents(corpus: Path) -> list[str]:
    """Read the documents back: an end of text comes before each; one that a text only mentions is plain text."""
    tokenizer = load_tokenizer(corpus)
    assert tokenizer is not None
    found = []
    for name in ("train", "val"):
        tokens = np.fromfile(corpus / f"{name}.bin", dtype=np.uint16)
        starts = np.flatnonzero(tokens == tokenizer.end_of_text)
        assert starts[0] == 0
        found += [tokenizer.decode(each[1:].tolist()) for each in np.split(tokens, starts[1:])]
    return found


def test_a_small_corpus_by_characters(sources: list[Path], tmp_path: Path) -> None:
    _made(tmp_path / "out", "--roots", sources[1], "--limit_mb", 0.15, "--chars", "--val", 0.3)
    corpus = open_corpus(tmp_path / "out")
    assert corpus.tokenizer is not None
    assert corpus.tokenizer.kind == "chars"
    assert read_meta(tmp_path / "out" / "meta.pkl").alphabet == tuple(
        json.loads((tmp_path / "out" / "tokenizer.json").read_text())["alphabet"]
    )
    assert corpus.vocab_size == read_meta(tmp_path / "out" / "meta.pkl").vocab_size
    assert 20_000 < corpus.train.tokens + corpus.val.tokens < 160_000


def _document(text: str) -> Document:
    return Document(hashlib.sha256(text.encode()).digest(), text)


def test_the_hash_alone_says_what_is_held_out() -> None:
    documents = [_document(f"number {number}") for number in range(10_000)]
    held_out = [each.text for each in documents if each.held_out(0.02)]
    assert held_out[:3] == ["number 20", "number 78", "number 91"], "it must never change: corpora would"
    assert 150 < len(held_out) < 250
    in_order = sorted(documents, key=lambda each: each.digest)
    assert 20 < sum(each.held_out(0.02) for each in in_order[:2000]) < 70, "wherever they stand"


def test_a_small_corpus_has_no_large_file() -> None:
    documents = [_document("x" * number) for number in range(399, 0, -1)]
    small, large = limited(documents, 1000), limited(documents, 10_000)
    assert max(len(each.text) for each in small) <= 50
    assert 1000 <= sum(len(each.text) for each in small) < 1050
    assert max(len(each.text) for each in large) == 399


def test_a_folder_in_another_is_searched_once(tmp_path: Path) -> None:
    inner = tmp_path / "outer" / "inner"
    inner.mkdir(parents=True)
    (tmp_path / "link").symlink_to(inner)
    assert outermost([inner, tmp_path / "outer", tmp_path / "link", tmp_path / "none"]) == [tmp_path / "outer"]
