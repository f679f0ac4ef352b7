from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from nanopace.corpus.prepare.recipe import Recipe, inputs_of
from nanopace.errors import InputError, UsageError


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"tokenizer": "words"}, "--tokenizer words: unknown; choose from gpt2, bytes, chars, bpe"),
        ({"vocab_size": 500}, "--vocab_size is only for --tokenizer bpe"),
        ({"val_fraction": 0.0}, "--val_fraction must be between 0 and 1, not 0.0"),
        ({"val_fraction": 1.0}, "--val_fraction must be between 0 and 1"),
        ({"val_fraction": float("nan")}, "--val_fraction must be between 0 and 1"),
        ({"shard_tokens": 0}, "--shard_tokens must be at least 1"),
    ],
)
def test_choices_are_checked(given: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        Recipe(name="x", **given)


def rows(path: Path, count: int) -> Path:
    path.write_text("".join(json.dumps({"text": f"row {n}"}) + "\n" for n in range(count)))
    return path


def sparse(path: Path, size: int) -> Path:
    with path.open("wb") as file:
        file.truncate(size)
    return path


def test_validation_by_the_size_of_the_files(tmp_path: Path) -> None:
    recipe = Recipe(name="x")
    assert inputs_of([rows(tmp_path / "a.jsonl", 200)], recipe).val_fraction == 0.1
    assert inputs_of([sparse(tmp_path / "b", 400_000_000)], recipe).val_fraction == 0.025
    assert inputs_of([sparse(tmp_path / "c", 2**40)], recipe).val_fraction == 0.0005
    assert inputs_of([tmp_path / "c"], Recipe(name="x", val_fraction=0.3)).val_fraction == 0.3


def test_of_few_documents_the_ends_are_held_out(tmp_path: Path) -> None:
    recipe = Recipe(name="x", val_fraction=0.1)
    assert inputs_of([rows(tmp_path / "few.jsonl", 99)], recipe).held_out == 0.1
    assert inputs_of([rows(tmp_path / "many.jsonl", 100)], recipe).held_out is None
    assert inputs_of([rows(tmp_path / "few.jsonl", 50), rows(tmp_path / "b.jsonl", 50)], recipe).held_out is None


def test_the_fingerprint_tells_files_and_choices_apart(tmp_path: Path) -> None:
    one, two = rows(tmp_path / "a.jsonl", 3), rows(tmp_path / "b.jsonl", 3)
    recipe = Recipe(name="x")
    prints = [
        inputs_of([one], recipe).fingerprint,
        inputs_of([two], recipe).fingerprint,
        inputs_of([one, two], recipe).fingerprint,
        inputs_of([two, one], recipe).fingerprint,
        inputs_of([one], Recipe(name="x", tokenizer="bytes")).fingerprint,
        inputs_of([one], Recipe(name="x", shard_tokens=7)).fingerprint,
        inputs_of([one], Recipe(name="x", val_fraction=0.2)).fingerprint,
    ]
    assert len(set(prints)) == len(prints)
    assert inputs_of([tmp_path / "." / "a.jsonl"], recipe).fingerprint == prints[0]
    os.utime(one, (1, 1))
    assert inputs_of([one], recipe).fingerprint != prints[0]


def test_what_cannot_be_read_twice(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="pipe: is not a regular file"):
        inputs_of([tmp_path / "pipe"], Recipe(name="x"))
    with pytest.raises(InputError, match="gone: cannot be read: No such file"):
        inputs_of([tmp_path / "gone"], Recipe(name="x"))
