"""A directory removed or renamed during a run and taken by another: real processes, in both orders."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from nanopace.errors import NanopaceError
from nanopace.literals import Value
from nanopace.train.checkpoint.layout import checkpoint_directories, newest_intact
from nanopace.train.checkpoint.lock import LOCK_FILE

from .. import processes
from ..conftest import TINY
from ..loop.test_interrupt import until
from ..runs import events, run

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(corpus: Path, tmp_path: Path) -> Iterator[Start]:
    """The command itself, in a directory `out`; the seed shows which run wrote a checkpoint."""
    with ExitStack() as stack:

        def started(seed: int, **knobs: Value) -> subprocess.Popen[str]:
            endless = {**TINY, "max_iters": 10**6, "save_interval": 5, "eval_interval": 20, "seed": seed}
            words = processes.command(tmp_path / "out", corpus, endless, **knobs)
            process = stack.enter_context(processes.listened([sys.executable, "-m", "nanopace", *words]))
            stack.callback(process.kill)
            return process

        yield started


def remove(out: Path) -> None:
    shutil.rmtree(out)


def rename(out: Path) -> None:
    out.rename(out.with_name("x"))


def unlock(out: Path) -> None:
    (out / LOCK_FILE).unlink()


def stopped(process: subprocess.Popen[str], out: Path) -> None:
    """Stop it between two saves: a save in progress would recreate `out` without a lock."""
    while True:
        process.send_signal(signal.SIGSTOP)
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        if not list(out.glob("checkpoints/*.writing")):
            return
        process.send_signal(signal.SIGCONT)
        time.sleep(0.01)


def seeds(out: Path) -> set[Any]:
    return {json.loads((each / "state.json").read_text())["config"]["seed"] for each in checkpoint_directories(out)}


def seeds_of_ledger(out: Path) -> list[int]:
    return [each["config"]["seed"] for each in events(out, "run")]


@pytest.mark.parametrize("how", [remove, rename])
def test_who_lost_the_directory_writes_beside_it(start: Start, tmp_path: Path, how: Callable[[Path], None]) -> None:
    """The second run takes `out` before the first one checks again."""
    out, beside = tmp_path / "out", tmp_path / "out.lost-1"
    first = start(1)
    until(first, 12)
    stopped(first, out)
    how(out)
    second = start(2, max_iters=30)
    until(second, 12)
    stopped(second, out)
    kept = [path.name for path in checkpoint_directories(out)]
    first.send_signal(signal.SIGCONT)
    until(first, 35)  # several saves
    assert [path.name for path in checkpoint_directories(out)] == kept
    assert seeds(out) == {2}
    second.send_signal(signal.SIGCONT)
    said, _ = second.communicate(timeout=60)
    assert second.returncode == 0, said
    kept = [path.name for path in checkpoint_directories(out)]
    until(first, 50)  # and when the second one is over, its directory is still its own
    first.send_signal(signal.SIGINT)
    said, _ = first.communicate(timeout=60)
    assert first.returncode == 1
    assert f"--out_dir={beside}" in said.splitlines()[-1]
    assert [path.name for path in checkpoint_directories(out)] == kept
    assert (seeds(out), seeds_of_ledger(out)) == ({2}, [2])
    assert (seeds(beside), seeds_of_ledger(beside)) == ({1}, [1])
    assert newest_intact(beside)[0] is not None
    notes = [each["text"] for each in events(beside, "note")]
    assert len([each for each in notes if "now belongs to another training run" in each]) == 1


@pytest.mark.parametrize("how", [remove, rename])
def test_who_is_there_first_keeps_the_name(start: Start, tmp_path: Path, how: Callable[[Path], None]) -> None:
    """The first run recreates its directory, and the second one is refused."""
    out = tmp_path / "out"
    first = start(1)
    until(first, 12)
    stopped(first, out)
    how(out)
    first.send_signal(signal.SIGCONT)
    while newest_intact(out)[0] is None:
        assert first.poll() is None
        assert not (tmp_path / "out.lost-1").exists()
        time.sleep(0.02)
    stopped(first, out)  # which still has its lock
    second = start(2)
    said, _ = second.communicate(timeout=60)
    assert second.returncode == 2
    assert "another training run is using it" in said
    first.send_signal(signal.SIGCONT)
    first.send_signal(signal.SIGTERM)
    said, _ = first.communicate(timeout=60)
    assert first.returncode == 130
    assert "was removed or renamed during training" in said
    assert (seeds(out), seeds_of_ledger(out)) == ({1}, [1])
    if how is rename:
        assert seeds(tmp_path / "x") == {1}


def test_a_lock_that_was_removed_lets_nobody_mix(start: Start, tmp_path: Path) -> None:
    """By somebody who thinks that it is stale: then the resuming run gets the directory."""
    out = tmp_path / "out"
    first = start(1)
    until(first, 12)
    stopped(first, out)
    unlock(out)
    second = start(1, init_from="resume", max_iters=100)
    until(second, 20)
    stopped(second, out)
    before = {path.name: path.stat().st_ino for path in checkpoint_directories(out)}
    ledger = (out / "ledger.jsonl").read_bytes()
    first.send_signal(signal.SIGCONT)
    until(first, 35)
    assert {path.name: path.stat().st_ino for path in checkpoint_directories(out)} == before
    assert (out / "ledger.jsonl").read_bytes() == ledger
    assert newest_intact(tmp_path / "out.lost-1")[0] is not None


@pytest.mark.parametrize("kind", ["link", "dangling", "hard", "pipe"])
def test_a_lock_that_is_none(corpus: Path, tmp_path: Path, kind: str) -> None:
    """In an untrusted directory: nothing is created, truncated or written through it."""
    out, victim = tmp_path / "out", tmp_path / "victim"
    out.mkdir()
    if kind != "dangling":
        victim.write_text("mine")
    if kind == "pipe":
        os.mkfifo(out / LOCK_FILE)
    elif kind == "hard":
        os.link(victim, out / LOCK_FILE)
    else:
        (out / LOCK_FILE).symlink_to(victim)
    if kind == "hard":
        run(corpus, out, max_iters=1)
    else:
        with pytest.raises(NanopaceError, match=r"\.lock: cannot be written: it is (a link|not a regular file)"):
            run(corpus, out, max_iters=1)
    assert victim.exists() == (kind != "dangling")
    assert kind == "dangling" or victim.read_text() == "mine"
