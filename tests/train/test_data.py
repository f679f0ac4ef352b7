"""Data that changes during a real run: an error names the file, and the progress so far is saved."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch

from nanopace.corpus.shards import token_files as tokens
from nanopace.corpus.shards.corpus import open_corpus
from nanopace.corpus.shards.order import Order
from nanopace.errors import InputError
from nanopace.literals import Value
from nanopace.train.checkpoint.layout import STATE, checksum_of, newest_intact
from nanopace.train.loop.batches import Batches

from . import runs
from .conftest import TINY, Recorder
from .fork_server import Popen
from .processes import command
from .runs import Acting

# With a vocabulary that includes a token with a flipped bit, not the 50304 of data without a manifest.
run = partial(runs.run, base={**TINY, "max_iters": 200, "vocab_size": 600})


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[1000] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("meddle", "says"),
    [
        (flip, "has changed since training started"),
        (lambda path: os.truncate(path, 100), "has changed since training started"),
        (Path.unlink, "can no longer be read: No such file"),
    ],
)
def test_a_shard_that_changes_under_the_run(
    corpus: Path, tmp_path: Path, meddle: Callable[[Path], object], says: str
) -> None:
    shard, out = corpus / "train-00000.bin", tmp_path / "out"
    before = shard.read_bytes()
    told = Acting(7, lambda: meddle(shard))
    with pytest.raises(InputError, match=rf"train-00000\.bin: {says}"):
        run(corpus, out, told)
    saved, _ = newest_intact(out)
    assert 8 <= saved.step <= 14  # saved when it happened, and not at an evaluation
    assert saved.step == len(told.losses)
    shard.write_bytes(before)  # it resumes as if nothing had happened
    after, whole = Recorder(), Recorder()
    last: dict[str, Value] = {"max_iters": 20}
    run(corpus, out, after, init_from="resume", **last)
    run(corpus, tmp_path / "whole", whole, **last)
    assert after.losses == {step: loss for step, loss in whole.losses.items() if step >= saved.step}


def test_a_shard_that_is_touched(corpus: Path, tmp_path: Path) -> None:
    told = Acting(7, lambda: os.utime(corpus / "train-00000.bin"))
    run(corpus, tmp_path / "out", told, max_iters=20)
    assert len(told.losses) == 21


@pytest.mark.parametrize("split", ["train", "val"])
def test_a_corpus_that_was_damaged_at_rest(corpus: Path, tmp_path: Path, split: str) -> None:
    flip(corpus / f"{split}-00000.bin")
    told = Recorder()
    with pytest.raises(InputError, match=rf"{split}-00000\.bin: is damaged: it is not the file the manifest lists"):
        run(corpus, tmp_path / "out", told)
    assert told.losses == {}


def test_validation_data_is_held_against_its_hashes_before_it_is_used(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However large: it is read once, at the start."""
    monkeypatch.setattr(tokens, "_SMALL", 0)
    flip(corpus / "val-00000.bin")
    with pytest.raises(InputError, match=r"val-00000\.bin: is damaged"):
        run(corpus, tmp_path / "out", Recorder())


def drain(batches: Batches) -> None:
    """The other thread needs a moment; if it finds nothing for this long, it never will."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        batches.next()


def test_much_data_is_held_against_its_hashes_beside_training(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "_SMALL", 0)
    flip(corpus / "train-00000.bin")
    split = open_corpus(corpus).train
    order = Order(split, 16, seed=3)
    with Batches(
        split, order, micro_steps=1, batch_size=1, block_size=16, device=torch.device("cpu"), first_window=0
    ) as batches:
        with pytest.raises(InputError, match="is damaged"):
            drain(batches)
        with pytest.raises(InputError, match="is damaged"):  # instead of waiting forever
            batches.next()


# --- nanoGPT's files, of which no manifest knows the hash -----------------------------------------------------------


def as_nanogpt_has_it(corpus: Path) -> Path:
    """A corpus in nanoGPT's format, so large that a byte between the samples is in none of them."""
    directory = corpus.parent / "raw"
    directory.mkdir()
    for split in ("train", "val"):
        tokens_of_it = (corpus / f"{split}-00000.bin").read_bytes()
        (directory / f"{split}.bin").write_bytes(tokens_of_it * (60_000 // len(tokens_of_it) + 1))
    return directory


def flip_in_the_middle_of_nowhere(path: Path, *, keep_time: bool) -> None:
    before, data = path.stat(), bytearray(path.read_bytes())
    data[len(data) // 3] ^= 1
    path.write_bytes(data)
    if keep_time:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize(("split", "keep_time"), [("train", True), ("train", False), ("val", True)])
def test_a_byte_that_changes_between_two_runs(corpus: Path, tmp_path: Path, split: str, keep_time: bool) -> None:
    data, out = as_nanogpt_has_it(corpus), tmp_path / "out"
    run(data, out, Recorder(), max_iters=5)
    fingerprint, ledger = open_corpus(data).fingerprint, (out / "ledger.jsonl").read_bytes()
    before = (data / f"{split}.bin").read_bytes()
    flip_in_the_middle_of_nowhere(data / f"{split}.bin", keep_time=keep_time)
    assert open_corpus(data).fingerprint == fingerprint  # which samples do not see
    with pytest.raises(
        InputError, match=rf"{split}\.bin: has changed since training started; restore the original file"
    ):
        run(data, out, Recorder(), max_iters=10, init_from="resume")
    assert (out / "ledger.jsonl").read_bytes() == ledger  # found before anything is written
    (data / f"{split}.bin").write_bytes(before)
    told = Recorder()
    run(data, out, told, max_iters=10, init_from="resume")
    assert max(told.losses) == 10


def test_much_data_without_a_manifest_is_held_against_what_it_was_beside_training(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, out = as_nanogpt_has_it(corpus), tmp_path / "out"
    run(data, out, Recorder(), max_iters=5)
    monkeypatch.setattr(tokens, "_SMALL", 0)
    flip_in_the_middle_of_nowhere(data / "train.bin", keep_time=True)
    with pytest.raises(InputError, match=r"train\.bin: has changed since training started"):
        run(data, out, Recorder(), max_iters=10**6, init_from="resume")


def test_much_data_is_read_through_once_and_its_hash_is_kept(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "_SMALL", 0)
    data, out = as_nanogpt_has_it(corpus), tmp_path / "out"
    run(data, out, Recorder(), max_iters=20)
    saved, _ = newest_intact(out)
    assert saved.state["corpus_sha256"] == {
        f"{split}.bin": hashlib.sha256((data / f"{split}.bin").read_bytes()).hexdigest() for split in ("train", "val")
    }


def test_a_checkpoint_of_before_that_knows_no_hashes(corpus: Path, tmp_path: Path) -> None:
    data, out = as_nanogpt_has_it(corpus), tmp_path / "out"
    run(data, out, Recorder(), max_iters=5)
    saved, _ = newest_intact(out)
    state = json.loads((saved.path / STATE).read_text())
    del state["corpus_sha256"], state["checksum"]
    state["checksum"] = checksum_of(state)
    (saved.path / STATE).write_text(json.dumps(state))
    told = Recorder()
    run(data, out, told, max_iters=7, init_from="resume")
    assert list(told.losses) == [6, 7]


CUT_IN_THE_SCAN = """
import os, sys
from nanopace.corpus.shards import scan
from nanopace.cli.main import main
read = scan.Shard.read
def cut(self, begin, count):
    if begin and not cut.done:
        os.truncate(self.path, self.path.stat().st_size // 4)
        cut.done = True
    return read(self, begin, count)
cut.done = False
scan.Shard.read = cut
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("when", ["scan", "steps"])
def test_a_file_that_is_cut_under_a_process(when: str, tmp_path: Path) -> None:
    """If it were mapped, a signal would end the process."""
    corpus, out = tmp_path / "corpus", tmp_path / "out"
    corpus.mkdir()
    for split in ("train", "val"):
        (corpus / f"{split}.bin").write_bytes(bytes(1 << 24 if split == "train" else 1 << 14))
    words = command(out, corpus, TINY, max_iters=100_000, vocab_size=300, eval_interval=10**6)
    start = ["-c", CUT_IN_THE_SCAN] if when == "scan" else ["-m", "nanopace"]
    child = Popen(
        [sys.executable, *start, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path
    )
    assert child.stdout is not None
    if when == "steps":
        next(line for line in child.stdout if line.startswith("iter 1"))
        os.truncate(corpus / "train.bin", 1000)
    _, err = child.communicate(timeout=120)
    assert child.returncode == 2, (child.returncode, err)
    assert err.count("\n") == 1, err
    assert "train.bin: " in err
    if when == "steps":
        assert "has changed since training started" in err
        assert newest_intact(out)[0] is not None
    else:
        assert "ends before its last token: it was truncated while being read" in err
