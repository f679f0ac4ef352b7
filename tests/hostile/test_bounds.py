"""Bombs, lies, pipes and devices: each is refused in one line, in a process with little memory and time."""

from __future__ import annotations

import hashlib
import json
import os
import struct
import threading
import zipfile
from pathlib import Path

import pytest

from ..train.conftest import write_corpus
from .bombs import LYING_HEADERS, ROW, bombs, greedy, safetensors, zip_bomb
from .limits import Answer, answers, is_one_line

LITTLE_MB = 1500  # torch takes 300, a file of 64 MB and its content the rest
LONG_S = 60  # of CPU time, on a busy machine; most take almost none
MODELS = ("sample {}", "convert {} written")
TRAIN = "train --device=cpu --compile=False --max_iters=1 --dataset={}"

pytestmark = pytest.mark.slow


def refused(room: Path, *commands: str) -> list[Answer]:
    """Check that all are refused, within bounds, and with nothing left on disk."""
    before = _listed(room)
    given = answers([command.split() for command in commands], room)
    assert len(given) == len(commands)
    for command, answer in zip(commands, given, strict=True):
        assert is_one_line(answer), (command, answer)
        assert answer.mb < LITTLE_MB, (command, answer)
        assert answer.seconds < LONG_S, (command, answer)
    assert _listed(room) == before
    return given


def _listed(room: Path) -> list[str]:
    return sorted(str(path) for path in room.rglob("*"))


def test_logs_that_unpack_to_gigabytes(tmp_path: Path) -> None:
    """The first row is valid, so that reading continues."""
    names = bombs(tmp_path, "train.log", ROW)
    for answer in refused(tmp_path, *(f"explain {name}" for name in names), f"compare {names[0]} {names[1]}"):
        assert "unpacks to more than 500 times its size, which no log does" in answer.err


def test_notebooks_that_take_much_memory(tmp_path: Path) -> None:
    """As many bytes as are parsed at once: values, levels, and a character that makes a text four times as wide."""
    names = bombs(tmp_path, "packed.ipynb", b'{"cells": [')
    for name, start, part, end in (
        ("values", '{"nbformat": 4, "cells": [', "{}, ", "{}]}"),
        ("levels", '{"nbformat": 4, "cells": ', "[", ""),
        ("wide", '{"nbformat": 4, "cells": [{"outputs": [{"text": "\\ud83d\\ude80', "x" * 4000, '"}]}]}'),
    ):
        (tmp_path / f"{name}.ipynb").write_text(start + part * ((63 << 20) // len(part)) + end)
        names.append(f"{name}.ipynb")
    for answer in refused(tmp_path, *(f"explain {name}" for name in names)):
        assert answer.mb < 600
        assert answer.seconds < 30


def test_texts_that_unpack_to_gigabytes(tmp_path: Path) -> None:
    names = bombs(tmp_path, "text", b"some text ") + bombs(tmp_path, "rows.jsonl", b'{"text": "a"}\n', ("gz", "zst"))
    zip_bomb(tmp_path / "archive.zip", "text.txt")
    zip_bomb(tmp_path / "rows.zip", "rows.jsonl")
    names += ["archive.zip", "rows.zip"]
    commands = [f"prepare {name} --tokenizer=bytes --out=made" for name in names]
    for answer in refused(tmp_path, *commands):
        assert "unpacks to more than 500 times its size" in answer.err or "longer than 32 MB" in answer.err


def test_headers_that_ask_for_gigabytes(tmp_path: Path) -> None:
    names = greedy(tmp_path, "train.log")
    refused(tmp_path, f"explain {names[0]}", *(f"prepare {name} --tokenizer=bytes --out=made" for name in names[:1]))
    # An xz may claim to need 4 GB and then use a few bytes: it is read or refused, and nothing else happens.
    for answer in answers([["explain", names[1]]], tmp_path):
        assert answer.code in (0, 2)
        assert answer.mb < LITTLE_MB


def test_checkpoints_that_unpack_to_gigabytes(tmp_path: Path) -> None:
    zip_bomb(tmp_path / "ckpt.pt", "archive/data.pkl")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text('{"model_type": "gpt2"}')
    zip_bomb(tmp_path / "model" / "pytorch_model.bin", "archive/data/0")
    refused(tmp_path, *(each.format("ckpt.pt") for each in MODELS), *(each.format("model") for each in MODELS))


def test_safetensors_that_lie(tmp_path: Path) -> None:
    commands = []
    for number, (header, length) in enumerate(LYING_HEADERS.values()):
        model = tmp_path / f"model-{number}"
        model.mkdir()
        (model / "config.json").write_text('{"model_type": "gpt2"}')
        safetensors(model / "model.safetensors", header, length=length)
        commands.append(f"sample {model.name}")
        checkpoint = tmp_path / f"run-{number}" / "checkpoints" / "step-00000007"
        checkpoint.mkdir(parents=True)
        safetensors(checkpoint / "model.safetensors", header, length=length)
        _state(checkpoint, {})
        commands.append(f"sample run-{number}")
    refused(tmp_path, *commands)


def _state(directory: Path, changes: dict[str, object]) -> None:
    """A state.json with correct checksums: anybody can compute them."""
    weights = (directory / "model.safetensors").read_bytes()
    shape = {"n_layer": 1, "n_head": 1, "n_embd": 4, "vocab_size": 4, "block_size": 4, "bias": False, "dropout": 0.0}
    state: dict[str, object] = {
        "nanopace": 1,
        "written_by": "0",
        "step": 7,
        "shape": {**shape, "activation": "gelu"},
        "config": {},
        "tokenizer": None,
        "files": {"model.safetensors": {"bytes": len(weights), "sha256": hashlib.sha256(weights).hexdigest()}},
        **changes,
    }
    state["checksum"] = hashlib.sha256(json.dumps(state, sort_keys=True).encode("ascii")).hexdigest()
    (directory / "state.json").write_text(json.dumps(state))


def test_checkpoints_that_lead_out_of_their_directory(tmp_path: Path) -> None:
    secret = tmp_path / "secret.safetensors"
    safetensors(secret, b"{}")
    known = {"bytes": secret.stat().st_size, "sha256": hashlib.sha256(secret.read_bytes()).hexdigest()}
    files: dict[str, object] = {
        "absolute": {str(secret): known},
        "above": {"../../../secret.safetensors": known},
        "link": {"linked.safetensors": known},
        "nul": {"a\0b": known},
        "no-dict": {"model.safetensors": [1]},
        "no-sizes": {"model.safetensors": {}},
    }
    for name, listed in files.items():
        checkpoint = tmp_path / name / "checkpoints" / "step-00000007"
        checkpoint.mkdir(parents=True)
        safetensors(checkpoint / "model.safetensors", b"{}")
        (checkpoint / "linked.safetensors").symlink_to(secret)
        _state(checkpoint, {"files": listed})
    given = refused(tmp_path, *(f"sample {name}" for name in files), *(f"convert {name} written" for name in files))
    assert all("must be in its own directory" in answer.err for answer in given[:4])


def test_archives_and_manifests_that_lead_out_of_their_directory(tmp_path: Path) -> None:
    (tmp_path / "room").mkdir()
    room = tmp_path / "room"
    with zipfile.ZipFile(room / "slip.zip", "w") as archive:
        for name in ("../escaped.txt", "/tmp/escaped.txt", "..\\escaped.txt", "a/../../escaped.txt"):
            archive.writestr(name, "some text\n" * 200)
        link = zipfile.ZipInfo("link.txt")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
    (given,) = answers([["prepare", "slip.zip", "--tokenizer=bytes", "--out=made"]], room)
    assert given.code == 0  # it is read, and never unpacked
    assert sorted(path.name for path in room.iterdir()) == ["made", "slip.zip"]
    assert [path.name for path in tmp_path.iterdir()] == ["room"]
    assert not Path("/tmp/escaped.txt").exists()
    write_corpus(room / "corpus")
    manifest = (room / "corpus" / "corpus.json").read_text()
    commands = []
    for number, file in enumerate(("../made/train-00000.bin", "/etc/passwd", "..", "a/b", "", "a\\u0000b")):
        (room / f"corpus-{number}").mkdir()
        changed = manifest.replace('"train-00000.bin"', f'"{file}"')
        (room / f"corpus-{number}" / "corpus.json").write_text(changed)
        commands.append(TRAIN.format(f"corpus-{number}"))
    (room / "corpus" / "train-00000.bin").rename(tmp_path / "elsewhere.bin")
    (room / "corpus" / "train-00000.bin").symlink_to(tmp_path / "elsewhere.bin")
    assert "points outside the corpus" in refused(room, *commands, TRAIN.format("corpus"))[-1].err


DEEP = b"[" * (4 << 20)
JSON = {
    "deep": DEEP,
    "deeper": b'{"nanopace":' + DEEP,
    "long": b'{"nanopace": ' + b"9" * 1_000_000 + b"}",
    "large": b'{"nanopace": 1e999999, "files": {}, "checksum": 1e999999}',
    "wide": b"[" + b"[]," * 1_500_000 + b"[]]",
    "latin": b'{"nanopace": "\xff\xfe"}',
}


def test_json_without_end(tmp_path: Path) -> None:
    """In place of every JSON file that is read."""
    commands = []
    for kind, content in JSON.items():
        for name, path in (
            ("manifest", "corpus.json"),
            ("tokenizer", "tokenizer.json"),
            ("run", "checkpoints/step-00000001/state.json"),
            ("model", "config.json"),
        ):
            file = tmp_path / f"{kind}-{name}" / path
            file.parent.mkdir(parents=True)
            file.write_bytes(content)
            if name == "tokenizer":
                for split in ("train", "val"):
                    file.with_name(f"{split}.bin").write_bytes(bytes(4000))
            commands.append((TRAIN if name in ("manifest", "tokenizer") else "sample {}").format(f"{kind}-{name}"))
    for command, answer in zip(commands, refused(tmp_path, *commands), strict=True):
        assert command.partition("sample ")[2] in answer.err, (command, answer)


def test_shards_that_lie_about_their_length(tmp_path: Path) -> None:
    commands = []
    for number, (magic, version, count) in enumerate(
        [(20240520, 1, (1 << 31) - 1), (20240520, 1, -1), (20240520, 1, 0), (20240801, 7, 1 << 30), (20240520, 9, 100)]
    ):
        corpus = tmp_path / f"corpus-{number}"
        corpus.mkdir()
        for split in ("train", "val"):
            (corpus / f"a_{split}_000001.bin").write_bytes(
                struct.pack("<256i", magic, version, count, *[0] * 253) + bytes(2000)
            )
        commands.append(TRAIN.format(corpus.name))
    refused(tmp_path, *commands)


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_what_is_no_file(kind: str, tmp_path: Path) -> None:
    """A pipe without a writer, or a link to something endless: nothing blocks, and nothing fills up."""

    def put(path: Path) -> str:
        path.parent.mkdir(parents=True, exist_ok=True)
        if kind == "pipe":
            os.mkfifo(path)
        else:
            path.symlink_to("/dev/zero")
        return str(path.relative_to(tmp_path))

    def beside(path: Path, **files: bytes) -> None:
        for name, content in files.items():
            (path.parent / name.replace("_", ".")).write_bytes(content)

    put(tmp_path / "meta" / "meta.pkl")
    put(tmp_path / "tokenizer" / "tokenizer.json")
    put(tmp_path / "manifest" / "corpus.json")
    for name in ("meta", "tokenizer", "manifest"):
        beside(tmp_path / name / "x", train_bin=bytes(4000), val_bin=bytes(4000))
    put(tmp_path / "tokens" / "train.bin")
    beside(tmp_path / "tokens" / "x", val_bin=bytes(4000))
    commands = [TRAIN.format(name) for name in ("meta", "tokenizer", "tokens", "manifest")]
    put(tmp_path / "run" / "checkpoints" / "step-00000001" / "state.json")
    put(tmp_path / "gpt" / "ckpt.pt")
    put(tmp_path / "config" / "config.json")
    put(tmp_path / "weights" / "model.safetensors")
    put(tmp_path / "pickle" / "pytorch_model.bin")
    for name in ("weights", "pickle"):
        beside(tmp_path / name / "x", config_json=b'{"model_type": "gpt2"}')
    commands += [f"sample {name}" for name in ("run", "gpt", "gpt/ckpt.pt", "config", "weights", "pickle")]
    put(tmp_path / "text" / "a.txt")
    commands += ["prepare text/a.txt --tokenizer=bytes --out=made", "prepare text --tokenizer=bytes --out=made"]
    put(tmp_path / "logs" / "train.log")
    commands += ["explain logs"]
    if kind != "pipe":  # a named pipe is waited for, as `cat` does: explain <(zcat train.log.gz)
        commands += ["explain logs/train.log", "train logs/train.log", "sample gpt --prompt=FILE:logs/train.log"]
    refused(tmp_path, *commands)


def test_a_pipe_with_a_writer_is_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "train.log")

    def write() -> None:
        (tmp_path / "train.log").write_bytes(b"".join(ROW.replace(b" 0:", b" %d:" % n) for n in range(20)))

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    (given,) = answers([["explain", "train.log"]], tmp_path)
    writer.join(timeout=60)
    assert given.code == 0
    assert "20 rows" in given.out
