"""corpus.json: written and read back, and refused if anything in it is impossible."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanopace.corpus.shards.manifest import (
    Dtype,
    Manifest,
    ShardEntry,
    check_files,
    read_manifest,
    smallest_dtype,
    write_manifest,
)
from nanopace.errors import InputError

HASH = "ab" * 32
TRAIN = ShardEntry("train-00000.bin", tokens=100, text_bytes=400, sha256=HASH, max_id=50256, documents=3)
VAL = ShardEntry("val-00000.bin", tokens=10, text_bytes=40, sha256=HASH, max_id=300, documents=1)
MANIFEST = Manifest("python", "gpt2", HASH, 50257, "uint16", (TRAIN,), (VAL,), complete=True)

counts = st.integers(0, 2**60)
entries = st.builds(
    ShardEntry, st.from_regex(r"[a-z0-9][a-z0-9.-]{0,9}", fullmatch=True), counts, counts, st.just(HASH), counts, counts
)


def write_files(directory: Path, manifest: Manifest) -> None:
    size = {"uint16": 2, "uint32": 4}[manifest.dtype]
    for entry in manifest.train + manifest.val:
        (directory / entry.file).write_bytes(bytes(entry.tokens * size))


@given(
    st.text(),
    st.sampled_from(["uint16", "uint32"]),
    st.lists(entries, unique_by=lambda each: each.file, max_size=4),
    st.integers(0, 4),
    st.booleans(),
)
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory,
    name: str,
    dtype: Dtype,
    shards: list[ShardEntry],
    cut: int,
    complete: bool,
) -> None:
    directory = tmp_path_factory.mktemp("corpus")
    manifest = Manifest(name, "bpe", HASH, 5000, dtype, tuple(shards[:cut]), tuple(shards[cut:]), complete)
    write_manifest(directory, manifest)
    assert read_manifest(directory) == manifest
    assert os.listdir(directory) == ["corpus.json"]


def test_the_file_can_be_read_by_others(tmp_path: Path) -> None:
    write_manifest(tmp_path, MANIFEST)
    content = json.loads((tmp_path / "corpus.json").read_bytes())
    assert list(content) == [
        *("nanopace", "name", "tokenizer", "tokenizer_hash", "vocab_size", "dtype", "complete", "splits")
    ]
    assert list(content["splits"]) == ["train", "val"]
    assert list(content["splits"]["train"][0]) == ["file", "tokens", "text_bytes", "sha256", "max_id", "documents"]


def test_the_smallest_type_that_holds_every_id() -> None:
    assert [smallest_dtype(size) for size in (257, 65536, 65537)] == ["uint16", "uint16", "uint32"]


# --- files -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["uint16", "uint32"])
def test_files_in_their_size_pass(dtype: Dtype, tmp_path: Path) -> None:
    manifest = replace(MANIFEST, dtype=dtype)
    write_files(tmp_path, manifest)
    check_files(tmp_path, manifest)


@pytest.mark.parametrize("size", [0, 199, 201, 400])
def test_a_file_in_another_size_is_named(size: int, tmp_path: Path) -> None:
    write_files(tmp_path, MANIFEST)
    (tmp_path / TRAIN.file).write_bytes(bytes(size))
    with pytest.raises(InputError, match=rf"train-00000\.bin: has {size} bytes, but the manifest lists 200"):
        check_files(tmp_path, MANIFEST)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    write_files(tmp_path, MANIFEST)
    (tmp_path / VAL.file).unlink()
    with pytest.raises(InputError, match=r"val-00000\.bin: is missing"):
        check_files(tmp_path, MANIFEST)


def test_a_link_out_of_the_corpus_is_refused(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    write_files(corpus, MANIFEST)
    (corpus / TRAIN.file).rename(tmp_path / "elsewhere.bin")
    (corpus / TRAIN.file).symlink_to(tmp_path / "elsewhere.bin")
    with pytest.raises(InputError, match="points outside the corpus"):
        check_files(corpus, MANIFEST)


def test_a_corpus_may_itself_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "corpus").mkdir()
    write_files(tmp_path / "corpus", MANIFEST)
    (tmp_path / "link").symlink_to(tmp_path / "corpus")
    check_files(tmp_path / "link", MANIFEST)


# --- damage ----------------------------------------------------------------------------------------------------------

BAD_FIELDS: list[tuple[str, Any]] = [
    *(("name", value) for value in (None, 3)),
    *(("vocab_size", value) for value in (-1, "50257", True, 1.5)),
    *(("dtype", value) for value in ("uint8", "float32", None, ["uint16"])),
    *(("complete", value) for value in (1, "true", None)),
    *(("splits", value) for value in (None, [], 3)),
    ("tokenizer", 7),
    ("tokenizer_hash", None),
]
BAD_ENTRY_FIELDS: list[tuple[str, Any]] = [
    *(("file", value) for value in ("../train.bin", "/etc/passwd", "a/b.bin", "..", ".hidden", "", "a\\b", "a\0", 3)),
    *(
        (name, value)
        for name in ("tokens", "text_bytes", "documents", "max_id")
        for value in (-1, 1e400, float("nan"), 1.5, 10**400, True, "1", None, [], {}, 1 << 64)
    ),
    *(("sha256", value) for value in ("", "xyz", HASH.upper(), None)),
    ("file", "x" * 300),
]


def damaged(directory: Path, content: Any) -> str:
    (directory / "corpus.json").write_text(json.dumps(content) if not isinstance(content, str) else content)
    with pytest.raises(InputError) as error:
        read_manifest(directory)
    assert str(directory / "corpus.json") in str(error.value)
    return str(error.value)


def content_of(directory: Path) -> dict[str, Any]:
    write_manifest(directory, MANIFEST)
    content: dict[str, Any] = json.loads((directory / "corpus.json").read_bytes())
    return content


@pytest.mark.parametrize(("field", "value"), BAD_FIELDS)
def test_a_field_that_cannot_be_right_is_named(field: str, value: Any, tmp_path: Path) -> None:
    message = damaged(tmp_path, content_of(tmp_path) | {field: value})
    assert f"its {field} cannot be right" in message


@pytest.mark.parametrize(("field", "value"), BAD_ENTRY_FIELDS)
def test_a_field_of_a_shard_too(field: str, value: Any, tmp_path: Path) -> None:
    content = content_of(tmp_path)
    content["splits"]["val"][0][field] = value
    assert f"its {field} cannot be right" in damaged(tmp_path, content)


def test_a_file_that_is_listed_twice_is_refused(tmp_path: Path) -> None:
    content = content_of(tmp_path)
    content["splits"]["val"][0]["file"] = TRAIN.file
    assert "its file cannot be right" in damaged(tmp_path, content)


@pytest.mark.parametrize("splits", [{"train": []}, {"train": [3], "val": []}, {"train": {}, "val": []}])
def test_splits_that_are_none_are_refused(splits: Any, tmp_path: Path) -> None:
    damaged(tmp_path, content_of(tmp_path) | {"splits": splits})


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "[" * 100_000])
def test_what_is_no_json_object_is_refused(text: str, tmp_path: Path) -> None:
    assert "it is not a JSON object" in damaged(tmp_path, text)


@pytest.mark.parametrize("version", [0, 2, None, "1"])
def test_another_version_is_refused(version: Any, tmp_path: Path) -> None:
    assert "this version of nanopace" in damaged(tmp_path, content_of(tmp_path) | {"nanopace": version})


def test_a_missing_manifest_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"corpus\.json: cannot be read: No such file"):
        read_manifest(tmp_path)
