"""Preparing a corpus is killed and restarted: it continues, and no byte of the result differs."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nanopace.corpus.prepare import intake
from nanopace.corpus.prepare.prepare import Recipe, Status, prepare
from nanopace.corpus.prepare.provenance import PROVENANCE
from nanopace.corpus.shards.corpus import open_corpus
from nanopace.corpus.shards.manifest import MANIFEST, read_manifest
from nanopace.errors import InputError

from ..conftest import contents

BYTES = Recipe(name="rows", tokenizer="bytes", shard_tokens=4000)

CHILD = """
import os, signal, sys
from pathlib import Path
from nanopace.corpus.documents import pieces
from nanopace.corpus.prepare import intake
from nanopace.corpus.prepare.prepare import Recipe, prepare

intake.BATCH = 20_000
pieces.PIECE = 1_000
out, vocab_size, left, *files = sys.argv[1:]
left = int(left)

def deadly(operation):
    def counted(*arguments, **options):
        global left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return operation(*arguments, **options)
    return counted

if left:  # the disk is touched that many times, and then comes the end
    for name in ("fsync", "replace", "unlink", "open"):
        setattr(os, name, deadly(getattr(os, name)))
kind = {"tokenizer": "bpe", "vocab_size": int(vocab_size)} if vocab_size != "0" else {"tokenizer": "bytes"}
print("ready", flush=True)
prepare([Path(file) for file in files], Path(out), Recipe(name="rows", shard_tokens=4000, **kind))
"""


def child(out: Path, files: list[Path], *, vocab_size: int = 0, operations: int = 0) -> list[str]:
    return [sys.executable, "-c", CHILD, str(out), str(vocab_size), str(operations), *map(str, files)]


@pytest.fixture
def whole(rows: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """What an uninterrupted run makes of the rows."""
    monkeypatch.setattr("nanopace.corpus.documents.pieces.PIECE", 1000)
    prepare(rows, tmp_path / "whole", BYTES)
    return contents(tmp_path / "whole")


def test_killed_wherever_it_touches_the_disk(rows: list[Path], whole: dict[str, bytes], tmp_path: Path) -> None:
    out = tmp_path / "out"
    killed = 0
    for operations in (2, 9, 21, 23, 24, 25, 26, 27, 28, 30, 60, 0):
        listed = read_manifest(out) if (out / MANIFEST).exists() else None
        entries = (*listed.train, *listed.val) if listed else ()
        finished = {entry.file: (out / entry.file).stat().st_mtime_ns for entry in entries}
        status = subprocess.run(child(out, rows, operations=operations), stdout=subprocess.DEVNULL, check=False)
        killed += status.returncode == -signal.SIGKILL
        assert all(
            (out / name).stat().st_mtime_ns == when for name, when in finished.items()
        )  # finished stays finished
        if status.returncode:
            with pytest.raises(InputError, match=r"no such corpus|not finished|contains no corpus"):
                open_corpus(out)
    assert killed >= 10
    assert contents(out) == whole


def test_killed_at_any_time(rows: list[Path], whole: dict[str, bytes], tmp_path: Path) -> None:
    out = tmp_path / "out"
    rng = random.Random(2)
    for _ in range(4):
        process = subprocess.Popen(child(out, rows), stdout=subprocess.PIPE)
        process.stdout.readline()
        time.sleep(rng.uniform(0, 0.05))
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    subprocess.run(child(out, rows), check=True, stdout=subprocess.DEVNULL)
    assert contents(out) == whole


def test_killed_while_the_tokenizer_is_made(rows: list[Path], tmp_path: Path) -> None:
    subprocess.run(child(tmp_path / "whole", rows, vocab_size=280), check=True, stdout=subprocess.DEVNULL)
    for operations in (3, 5, 8, 0):
        subprocess.run(child(tmp_path / "out", rows, vocab_size=280, operations=operations), check=False)
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


def test_a_resumed_run_does_not_encode_again(
    rows: list[Path], whole: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Enough(Exception):
        pass

    monkeypatch.setattr(intake, "BATCH", 10_000)

    def stop(status: Status) -> None:
        if status.done > 0.6 * (status.total or 0):
            raise Enough

    with pytest.raises(Enough):
        prepare(rows, tmp_path / "out", BYTES, on_progress=stop)
    summary = prepare(rows, tmp_path / "out", BYTES)
    assert summary.resumed
    assert 0 < summary.encoded.text_bytes < 0.5 * summary.text_bytes
    assert contents(tmp_path / "out") == whole


def test_what_is_lost_in_between(
    rows: list[Path], whole: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unfinished files are made again anyway; finished ones, and those that describe the corpus, must exist."""
    monkeypatch.setattr(intake, "BATCH", 10_000)
    out = tmp_path / "out"

    def stop(status: Status) -> None:
        if status.tokens > 30_000:
            raise KeyboardInterrupt

    for lost, complaint in (
        (PROVENANCE, "contains another corpus"),
        ("tokenizer.json", "is damaged; start over with --restart"),
        ("train-00001.bin", "is missing, but the manifest lists it"),
        ("*.part", None),
        (MANIFEST, None),
    ):
        with pytest.raises(KeyboardInterrupt):
            prepare(rows, out, BYTES, restart=True, on_progress=stop)
        paths = list(out.glob(lost))
        assert paths
        for path in paths:
            path.unlink()
        if complaint is not None:
            with pytest.raises(InputError, match=complaint):
                prepare(rows, out, BYTES)
        else:
            prepare(rows, out, BYTES)
            assert contents(out) == whole


def test_shards_of_other_text(rows: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A manifest whose finished shards cannot come from this input."""
    monkeypatch.setattr(intake, "BATCH", 10_000)

    def stop(_: Status) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepare(rows, tmp_path / "out", BYTES, on_progress=stop)
    path = tmp_path / "out" / MANIFEST
    before = json.loads(path.read_text())
    for field, change in (("text_bytes", -1), ("text_bytes", 10**9), ("documents", 1), ("documents", 10**9)):
        manifest = json.loads(json.dumps(before))
        manifest["splits"]["train"][-1][field] += change
        path.write_text(json.dumps(manifest))
        with pytest.raises(InputError, match=r"corpus\.json: is damaged; start over with --restart"):
            prepare(rows, tmp_path / "out", BYTES)
