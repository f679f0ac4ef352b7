"""A corpus whose making is killed: started again it goes on, and no byte of the result differs."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nanopace.corpus.prepare import encode as work
from nanopace.corpus.prepare import intake
from nanopace.corpus.prepare.dedup import SEEN_FILE, SeenFile
from nanopace.corpus.prepare.journal import JOURNAL
from nanopace.corpus.prepare.prepare import Recipe, Status, prepare
from nanopace.corpus.shards.corpus import open_corpus
from nanopace.errors import InputError

BYTES = Recipe(name="rows", tokenizer="bytes", shard_tokens=4000)

CHILD = """
import os, signal, sys
from pathlib import Path
from nanopace.corpus.prepare import intake
from nanopace.corpus.documents import pieces
from nanopace.corpus.prepare import encode as work
from nanopace.corpus.prepare.prepare import Recipe, prepare

intake.BATCH = 20_000
pieces.PIECE = 1_000
work._SECONDS_BETWEEN_COMMITS = 0
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
    """What an uninterrupted run in one go makes of the rows."""
    monkeypatch.setattr("nanopace.corpus.documents.pieces.PIECE", 1000)
    prepare(rows, tmp_path / "whole", BYTES)
    return contents(tmp_path / "whole")


def test_killed_wherever_it_touches_the_disk(rows: list[Path], whole: dict[str, bytes], tmp_path: Path) -> None:
    out = tmp_path / "out"
    killed = 0
    for operations in (2, 9, 21, 23, 24, 25, 26, 27, 28, 30, 60, 0):
        finished = {path.name: path.stat().st_mtime_ns for path in out.glob("*-*.bin")} if out.exists() else {}
        status = subprocess.run(child(out, rows, operations=operations), stdout=subprocess.DEVNULL, check=False)
        killed += status.returncode == -signal.SIGKILL
        assert all(
            (out / name).stat().st_mtime_ns == when for name, when in finished.items()
        )  # finished stays finished
        if status.returncode:
            with pytest.raises(InputError, match=r"no such corpus|not finished|holds no corpus"):
                open_corpus(out)
    assert killed >= 10
    assert contents(out) == whole


def test_killed_at_any_time(rows: list[Path], whole: dict[str, bytes], tmp_path: Path) -> None:
    out = tmp_path / "out"
    rng = random.Random(2)
    for _ in range(4):
        process = subprocess.Popen(child(out, rows), stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(rng.uniform(0, 0.05))
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    subprocess.run(child(out, rows), check=True, stdout=subprocess.DEVNULL)
    assert contents(out) == whole


def test_killed_when_all_but_tidying_up_is_done(
    rows: list[Path], whole: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(_: SeenFile) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(SeenFile, "remove", killed)
        with pytest.raises(KeyboardInterrupt):
            prepare(rows, tmp_path / "out", BYTES)
    assert (tmp_path / "out" / SEEN_FILE).exists()
    assert prepare(rows, tmp_path / "out", BYTES).resumed
    assert contents(tmp_path / "out") == whole


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
    monkeypatch.setattr(work, "_SECONDS_BETWEEN_COMMITS", 0)

    def stop(status: Status) -> None:
        if status.done > 0.6 * (status.total or 0):
            raise Enough

    with pytest.raises(Enough):
        prepare(rows, tmp_path / "out", BYTES, told=stop)
    summary = prepare(rows, tmp_path / "out", BYTES)
    assert summary.resumed
    assert 0 < summary.encoded.text_bytes < 0.5 * summary.text_bytes
    assert contents(tmp_path / "out") == whole


@pytest.mark.parametrize("lost", ["seen.bin", "train-*.part", "val-*.part", JOURNAL])
def test_what_is_lost_in_between_is_noticed(
    lost: str, rows: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "BATCH", 10_000)
    monkeypatch.setattr(work, "_SECONDS_BETWEEN_COMMITS", 0)

    def stop(status: Status) -> None:
        if status.tokens > 30_000:
            raise KeyboardInterrupt

    recipe = Recipe(name="rows", tokenizer="bytes", val_fraction=0.5)
    with pytest.raises(KeyboardInterrupt):
        prepare(rows, tmp_path / "out", recipe, told=stop)
    [path] = (tmp_path / "out").glob(lost)
    path.unlink()
    with pytest.raises(InputError, match=r"is damaged; start anew with --restart|holds another corpus"):
        prepare(rows, tmp_path / "out", recipe)
    prepare(rows, tmp_path / "out", recipe, restart=True)


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}
