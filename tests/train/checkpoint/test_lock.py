"""A second training in the same directory is refused while the first one lives, however that one ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nanopace.cli.main import main
from nanopace.config import Asked
from nanopace.errors import InputError, UsageError
from nanopace.literals import Value
from nanopace.train.checkpoint.layout import newest_whole
from nanopace.train.checkpoint.lock import LOCK_FILE, Claim
from nanopace.train.listener import Outcome
from nanopace.train.run import train

from ..conftest import TINY, Recorder


def second(corpus: Path, out: Path, **knobs: Value) -> Outcome:
    given = {**TINY, "dataset": str(corpus), "out_dir": str(out), **knobs}
    return train(Asked(given=given, files=("config.py",)), listener=Recorder(), started=time.monotonic())


def files(out: Path) -> set[str]:
    return {path.name for path in out.iterdir()}


@pytest.fixture
def running(corpus: Path, tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """The command itself, in the middle of a training that would take for ever."""
    out = tmp_path / "out"
    knobs = {**TINY, "dataset": corpus, "out_dir": out, "max_iters": 10**6, "save_interval": 5, "eval_interval": 1000}
    flags = [f"--{name}={value}" for name, value in knobs.items()]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
    with subprocess.Popen(
        [sys.executable, "-m", "nanopace", "train", "--no-report", *flags], env=environment, stdout=subprocess.DEVNULL
    ) as process:
        while newest_whole(out)[0] is None:
            assert process.poll() is None
            time.sleep(0.05)
        yield process, out
        process.kill()


def test_a_second_training_is_refused_until_the_first_is_gone(
    running: tuple[subprocess.Popen[bytes], Path], corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    process, out = running
    before = files(out)
    for knobs in ({}, {"overwrite": True}, {"init_from": "resume"}):
        with pytest.raises(UsageError, match=r"--out_dir=.*out: another training is running in it"):
            second(corpus, out, **knobs)  # type: ignore[arg-type]
    assert files(out) == before
    assert process.poll() is None
    while True:  # who only reads is not kept out; what it has listed may be gone by the time that it looks
        assert main(["verify", str(out)]) in (0, 2)
        if "step" in capsys.readouterr().out:
            break
        assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.wait()
    saved, _ = newest_whole(out)
    assert saved is not None
    outcome = second(corpus, out, init_from="resume", max_iters=saved.step + 1)
    assert (outcome.reason, outcome.iteration) == ("finished", saved.step + 2)


def test_the_lock_is_given_back_at_the_end_and_after_an_error(corpus: Path, tmp_path: Path) -> None:
    second(corpus, tmp_path / "out", max_iters=1)
    with pytest.raises(UsageError, match="holds a run"):
        second(corpus, tmp_path / "out", max_iters=1)
    second(corpus, tmp_path / "out", max_iters=1, overwrite=True)


def test_a_claim_is_exclusive(tmp_path: Path) -> None:
    with Claim(tmp_path) as first:
        first.take()
        first.take()
        with Claim(tmp_path) as other, pytest.raises(UsageError, match="another training"):
            other.take()
    with Claim(tmp_path) as other:
        other.take()
    assert files(tmp_path) == {LOCK_FILE}


def test_a_directory_that_cannot_be_locked(tmp_path: Path) -> None:
    (tmp_path / LOCK_FILE).mkdir()
    with Claim(tmp_path) as claim, pytest.raises(InputError, match="cannot be written: Is a directory"):
        claim.take()
