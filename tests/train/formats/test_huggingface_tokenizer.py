from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer as Library

from nanopace.corpus.tokenizers.tokenizer import Tokenizer, bytes_tokenizer, chars, gpt2, train_bpe
from nanopace.train.formats.huggingface_tokenizer import read_tokenizer, tokenizer_files

TEXTS = ["def f(x):\n    return x\n", "  naïve 日本 12345 <|endoftext|>  \n\n", "'s the end'll"]


@pytest.fixture(scope="module")
def trained() -> Tokenizer:
    return train_bpe([*TEXTS, "import os\n" * 20, "return self.value\n" * 20], 300)


def write(directory: Path, tokenizer: Tokenizer, leave_out: str = "") -> None:
    for name, data in tokenizer_files(tokenizer, 64).items():
        if name != leave_out:
            (directory / name).write_bytes(data)


def change(directory: Path, **changes: Any) -> None:
    path = directory / "tokenizer.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_a_trained_one_there_and_back(trained: Tokenizer, tmp_path: Path) -> None:
    write(tmp_path, trained)
    back = read_tokenizer(tmp_path, 300)
    assert (back.kind, back.hash) == ("bpe", trained.hash)


@pytest.mark.parametrize("leave_out", ["", "tokenizer.json", "vocab.json"])
def test_gpt2_is_recognised(leave_out: str, tmp_path: Path) -> None:
    """From tokenizer.json, or from its own two files."""
    write(tmp_path, gpt2(), leave_out)
    back = read_tokenizer(tmp_path, 50304)
    assert back.kind == "gpt2"


def test_gpt2_without_its_tokenizer_is_known_by_its_size(tmp_path: Path, trained: Tokenizer) -> None:
    """As in the cache of somebody who asked transformers for the weights alone."""
    back = read_tokenizer(tmp_path, 50257)
    assert back.kind == "gpt2"
    assert read_tokenizer(tmp_path, 50256) is None
    write(tmp_path, trained)  # a directory that has one has that one
    back = read_tokenizer(tmp_path, 50257)
    assert back.hash == trained.hash


def test_older_files_do_not_say_that_they_are_a_bpe(tmp_path: Path, trained: Tokenizer) -> None:
    write(tmp_path, trained)
    model = json.loads((tmp_path / "tokenizer.json").read_text())["model"]
    del model["type"]
    change(tmp_path, model=model)
    back = read_tokenizer(tmp_path, 300)
    assert back.hash == trained.hash


def test_hugging_face_gives_the_same_ids(trained: Tokenizer, tmp_path: Path) -> None:
    for tokenizer in (trained, gpt2()):
        write(tmp_path, tokenizer)
        theirs = Library.from_file(str(tmp_path / "tokenizer.json"))
        assert theirs.token_to_id("<|endoftext|>") == tokenizer.end_of_text
        for text in TEXTS:
            plain = text.replace("<|endoftext|>", "")  # which is a document's end there, and plain text here
            assert theirs.encode(plain).ids == tokenizer.encode(plain)
            assert theirs.decode(tokenizer.encode(plain)) == plain


def test_bytes_and_characters_are_unknown_there() -> None:
    assert tokenizer_files(bytes_tokenizer(), 64) == {}
    assert tokenizer_files(chars("abc"), 64) == {}


def test_no_tokenizer_is_none(tmp_path: Path) -> None:
    assert read_tokenizer(tmp_path, 300) is None


def test_one_that_is_too_large_for_the_model(trained: Tokenizer, tmp_path: Path) -> None:
    write(tmp_path, trained)
    assert read_tokenizer(tmp_path, trained.vocab_size) is not None
    assert read_tokenizer(tmp_path, trained.vocab_size - 1) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"normalizer": {"type": "NFC"}},
        {"pre_tokenizer": {"type": "Whitespace"}},
        {"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": True}},
        {"pre_tokenizer": None},
        {"model": {"type": "WordPiece"}},
        {"model": {"type": "BPE", "vocab": {}, "merges": []}},
        {"model": {}},
        {"added_tokens": []},
        {"added_tokens": [{"content": "<|endoftext|>", "id": 5000}]},
        {"added_tokens": [{"content": "<|endoftext|>", "id": 3}]},
        {"added_tokens": 7},
    ],
)
def test_any_other_is_none(changes: dict[str, Any], trained: Tokenizer, tmp_path: Path) -> None:
    """A partial tokenizer would be a wrong one."""
    write(tmp_path, trained)
    change(tmp_path, **changes)
    assert read_tokenizer(tmp_path, 10_000) is None


@pytest.mark.parametrize("content", ["", "[]", "{}", "[" * 100_000])
def test_a_damaged_one_is_none(content: str, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text(content)
    assert read_tokenizer(tmp_path, 10_000) is None


def test_one_that_would_fill_the_memory_is_none(tmp_path: Path) -> None:
    with open(tmp_path / "tokenizer.json", "wb") as file:
        file.write(b'{"model":')
        file.truncate((1 << 28) + 1)
    assert read_tokenizer(tmp_path, 10_000) is None


def test_merges_written_as_one_text(trained: Tokenizer, tmp_path: Path) -> None:
    """As releases of the library before 0.20 did."""
    write(tmp_path, trained)
    model = json.loads((tmp_path / "tokenizer.json").read_text())["model"]
    change(tmp_path, model={**model, "merges": [" ".join(merge) for merge in model["merges"]]})
    back = read_tokenizer(tmp_path, 300)
    assert back.hash == trained.hash
