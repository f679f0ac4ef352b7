"""Corpora that would fill memory: each is refused in one line, within half a gigabyte."""

from __future__ import annotations

import gzip
import json
import os
import struct
from pathlib import Path

import pytest

from ..train.conftest import write_corpus
from .bombs import many_little_zip_bombs, overlapping_zip, parquet_bombs, zip_of_gz
from .limits import Answer, answers, is_one_line

pytestmark = pytest.mark.slow

LITTLE_MB = 500
LONG_S = 10
MADE = "--tokenizer=bytes --out=made"


def refused(room: Path, *commands: str) -> list[Answer]:
    given = answers([command.split() for command in commands], room)
    for command, answer in zip(commands, given, strict=True):
        assert is_one_line(answer), (command, answer)
        assert answer.mb < LITTLE_MB, (command, answer)
        assert answer.seconds < LONG_S, (command, answer)
    return given


def test_parquet_of_kilobytes(tmp_path: Path) -> None:
    names = parquet_bombs(tmp_path)
    assert all((tmp_path / name).stat().st_size < 60_000 for name in names)
    for answer in refused(tmp_path, *(f"prepare {name} {MADE}-{name}" for name in names)):
        assert "unpacks to more than 500 times its size" in answer.err


def test_parquet_that_lies(tmp_path: Path) -> None:
    """Every byte of a small file is changed in turn: it is refused or read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"text": ["some text", "more text"] * 40}), tmp_path / "a.parquet", store_schema=False)
    data = (tmp_path / "a.parquet").read_bytes()
    commands = []
    for place in range(4, len(data) - 4, 5):
        (tmp_path / f"{place}.parquet").write_bytes(data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :])
        commands.append(["prepare", f"{place}.parquet", "--tokenizer=bytes", f"--out={place}", "--restart"])
    for answer in answers(commands, tmp_path):
        assert answer.code == 0 or is_one_line(answer), answer
        assert answer.mb < LITTLE_MB


def test_archives_of_kilobytes(tmp_path: Path) -> None:
    overlapping_zip(tmp_path / "overlapping.zip")
    many_little_zip_bombs(tmp_path / "many.zip")
    zip_of_gz(tmp_path / "twice.zip")
    names = ["overlapping.zip", "many.zip", "twice.zip"]
    first, *others = refused(tmp_path, *(f"prepare {name} {MADE}-{name}" for name in names))
    assert "overlapping.zip: cannot be read: archive members overlap" in first.err
    assert all("unpacks to more than 500 times its size" in answer.err for answer in others)


def test_rows_of_nothing(tmp_path: Path) -> None:
    rows = {
        "dicts": b'{"a": [' + b"{}," * 8_000_000 + b'{}], "text": "a"}',
        "lists": b'{"a": [' + b"[]," * 8_000_000 + b'[]], "text": "a"}',
        "strings": b'{"a": [' + b'"ab",' * 5_000_000 + b'"a"], "text": "a"}',
        "wide": b'{"text": "' + b"a" * (40 << 20) + '😀"}'.encode(),
    }
    for name, row in rows.items():
        (tmp_path / f"{name}.jsonl").write_bytes(row + b"\n")
    refused(tmp_path, *(f"prepare {name}.jsonl {MADE}" for name in rows))


def test_a_text_that_is_nothing_but_a_size(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text\n" * 2000)
    os.truncate(tmp_path / "a.txt", 1 << 40)
    assert "a.txt: is not a text file" in refused(tmp_path, f"prepare a.txt {MADE}")[0].err


def test_datasets_to_train_on(tmp_path: Path) -> None:
    """The vocabulary and the manifest of an untrusted dataset; torch alone takes about 300 MB."""
    commands = []
    pickles = {
        "dicts": b"\x80\x04" + b"}" * 15_000_000 + b".",
        "marks": b"\x80\x04}" + b"(" * 15_000_000 + b".",
        "memo": b"\x80\x04}K\0" + b"\x94" * 15_000_000 + b".",
        "numbers": b"\x80\x04}(" + b"".join(b"J" + struct.pack("<i", n) for n in range(2_000_000)) + b"u.",
    }
    for name, data in pickles.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "meta.pkl").write_bytes(data)
        for split in ("train", "val"):
            (tmp_path / name / f"{split}.bin").write_bytes(bytes(4000))
        commands.append(name)
    for name in ("corpus.json", "tokenizer.json"):
        directory = tmp_path / f"wide-{name}"
        write_corpus(directory)
        (directory / name).write_bytes(b'{"nanopace": 1, "a": [' + b"{}," * 20_000_000 + b"{}]}")
        commands.append(directory.name)
    given = answers([["train", "--device=cpu", "--compile=False", f"--dataset={name}"] for name in commands], tmp_path)
    for command, answer in zip(commands, given, strict=True):
        assert is_one_line(answer), (command, answer)
        assert answer.mb < LITTLE_MB + 300, (command, answer)
        assert answer.seconds < LONG_S, (command, answer)


def test_numbers_in_a_manifest(tmp_path: Path) -> None:
    commands = []
    for number, value in enumerate([-1, 1e400, 10**400, True, "1", None, [], 1.5]):
        for field in ("vocab_size", "tokens", "max_id"):
            corpus = tmp_path / f"{field}-{number}"
            write_corpus(corpus)
            manifest = json.loads((corpus / "corpus.json").read_text())
            (manifest if field == "vocab_size" else manifest["splits"]["train"][0])[field] = value
            (corpus / "corpus.json").write_text(json.dumps(manifest))
            commands.append(["train", "--device=cpu", f"--dataset={corpus.name}"])
    for answer in answers(commands, tmp_path):
        assert is_one_line(answer), answer


def test_compressed_rows_of_one_line(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(b'{"text": "' + b"ab c" * (20 << 20) + b'"}\n'))
    refused(tmp_path, f"prepare a.jsonl.gz {MADE}")
