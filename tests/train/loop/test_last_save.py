"""A last save that fails: retried, saved elsewhere, never called finished. Real processes, a full disk."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from nanopace.cli.main import main
from nanopace.ledger import StepEvent
from nanopace.train.checkpoint.layout import newest_intact
from nanopace.train.loop.saves import _waited as waited

from ...cli.conftest import unmeasured
from .. import fork_server, processes
from ..checkpoint.test_disk import fill, small_disk  # noqa: F401
from ..conftest import TINY, Recorder
from ..processes import LONGEST
from ..runs import Acting, events, resume, run
from .test_interrupt import until

SLOW = """
import os, sys, time
from nanopace.train.loop import loop
plain = loop.Loop.step
def step(self):
    plain(self)
    if self.iteration == 12:
        kept = os.path.join(os.path.dirname(sys.argv[1]), "out", "checkpoints")
        while os.path.isdir(kept) and sorted(os.listdir(kept)) not in ([], ["step-00000008", "step-00000012"]):
            time.sleep(0.01)  # what is still saved and removed would make room
        with open(sys.argv[1], "wb", buffering=0) as file:
            try:
                while file.write(b"x" * 512): pass
            except OSError: pass
loop.Loop.step = step
from nanopace.cli.main import main
sys.exit(main(sys.argv[2:]))
"""  # the command itself, on a disk that is full from step 12 on


@pytest.fixture
def command(corpus: Path, small_disk: Path) -> list[str]:  # noqa: F811
    words = processes.command(small_disk / "out", corpus, TINY, max_iters=14, save_interval=4)
    return [sys.executable, "-c", SLOW, str(small_disk / "ballast"), *words]


def test_a_wait_lasts_as_long_as_nobody_asks_otherwise() -> None:
    began = time.monotonic()
    assert waited(0.12, lambda: False)
    assert waited(0.12, lambda: True)  # an earlier request does not cut the wait short
    assert time.monotonic() - began >= 0.24
    answers = iter([False, False, True])
    assert not waited(60, lambda: next(answers))
    assert waited(-1, lambda: False)


def waiting(command: list[str], *seconds: float) -> list[str]:
    """Sets the wait before each further attempt to save."""
    change = f"from nanopace.train.loop import saves; saves.WAITS = {seconds}"
    return [change + each if each == SLOW else each for each in command]


def hastily(command: list[str]) -> list[str]:
    return waiting(command, 0.01, 0.01)


def ended(out: Path) -> dict[str, Any]:
    return events(out)[-1]


INTERVALS = ("max_iters", "save_interval", "eval_interval")


@contextmanager
def endless(command: list[str]) -> Iterator[subprocess.Popen[str]]:
    """A run that continues until it is interrupted."""
    with processes.listened([*command, *(f"--{each}=1000000" for each in INTERVALS)]) as process:
        try:
            yield process
        finally:
            process.kill()


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def test_a_run_whose_last_step_is_not_saved_did_not_finish(command: list[str], small_disk: Path) -> None:  # noqa: F811
    done = fork_server.run(hastily(command), env=unmeasured())
    assert done.returncode == 1, done.stderr
    last = done.stdout.splitlines()[-1]
    assert last.startswith("trained 15 steps, but step 15 could not be saved (")
    assert "No space left on device" in last
    assert "the newest intact checkpoint is step 12" in last
    assert last.endswith(f"resume with: nanopace train --init_from=resume --out_dir={small_disk / 'out'}")
    assert "finished" not in done.stdout
    assert names(small_disk / "out" / "checkpoints") == ["step-00000008", "step-00000012"]


def test_it_is_saved_elsewhere(command: list[str], small_disk: Path, tmp_path: Path) -> None:  # noqa: F811
    """The rescued checkpoint can be resumed and sampled from."""
    rescue = tmp_path / "other disk" / "rescue"
    done = fork_server.run([*hastily(command), f"--rescue_dir={rescue}"], env=unmeasured())
    assert done.returncode == 1, done.stderr
    last = done.stdout.splitlines()[-1]
    assert last.startswith(f"trained 15 steps; step 15 is not in {small_disk / 'out'} (")
    assert f"but saved as {rescue}/checkpoints/step-00000015" in last
    saved, refused = newest_intact(rescue)
    assert (saved.step, refused) == (15, [])
    _, told = resume(rescue, max_iters=16)
    assert list(told.losses) == [15, 16]
    assert newest_intact(small_disk / "out")[0].step == 12  # type: ignore[union-attr]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_that_cannot_be_saved(
    command: list[str],
    small_disk: Path,  # noqa: F811
    number: signal.Signals,
) -> None:
    with endless(hastily(command)) as started:
        until(started, 13)
        started.send_signal(number)
        said, _ = started.communicate(timeout=LONGEST)
    assert started.returncode == 1, said
    assert "but nothing was saved (" in said.splitlines()[-1], said
    assert names(small_disk / "out" / "checkpoints") == []


def test_one_more_ctrl_c_ends_the_attempts(command: list[str]) -> None:
    """The next attempt would come in an hour."""
    with endless(waiting(command, 3600.0)) as started:
        until(started, 13)
        started.send_signal(signal.SIGINT)
        assert started.stdout is not None
        while "could not save" not in started.stdout.readline():
            assert started.poll() is None
        started.send_signal(signal.SIGINT)
        said, _ = started.communicate(timeout=LONGEST)
    assert started.returncode == 1, said
    assert "nothing was saved" in said


class Mended(Acting):
    """The disk is full from step 12 on, and has room again once the last save has failed."""

    def __init__(self, ballast: Path) -> None:
        super().__init__(12, lambda: fill(ballast))
        self._ballast = ballast

    def note(self, text: str) -> None:
        self.said.append(("note", text))
        if "could not save" in text:
            self._ballast.unlink()


def test_a_disk_that_is_full_for_a_moment(corpus: Path, small_disk: Path) -> None:  # noqa: F811
    out = small_disk / "out"
    outcome, _ = run(corpus, out, Mended(small_disk / "ballast"), max_iters=14, save_interval=100)
    assert (outcome.reason, outcome.failure) == ("finished", None)
    assert newest_intact(out)[0].step == 15  # type: ignore[union-attr]
    assert ended(out)["reason"] == "finished"
    assert "failure" not in ended(out)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """The attempts follow one another immediately."""
    monkeypatch.setattr("nanopace.train.loop.saves.WAITS", (0.01, 0.01))


@pytest.mark.usefixtures("hasty")
def test_the_ledger_tells_the_truth(corpus: Path, tmp_path: Path) -> None:
    """The checkpoints' folder is no longer a folder; the ledger can be written."""
    out = tmp_path / "out"

    def get_in_the_way() -> None:
        (out / "checkpoints").rename(out / "aside")
        (out / "checkpoints").touch()

    outcome, _ = run(corpus, out, Acting(5, get_in_the_way), max_iters=5, save_interval=100)
    assert (outcome.reason, outcome.checkpoint) == ("error", None)
    end = ended(out)
    assert (end["event"], end["reason"]) == ("end", "error")
    assert "step-00000006: " in end["failure"]
    assert "saved" not in end


@pytest.mark.usefixtures("hasty")
def test_two_runs_with_one_rescue_dir(corpus: Path, tmp_path: Path) -> None:
    """The second one touches nothing of the first."""
    for number in (1, 2):
        out = tmp_path / f"out-{number}"
        outcome, _ = run(corpus, out, _blocked(out), max_iters=2, rescue_dir=str(tmp_path / "r"))
        place = tmp_path / "r" if number == 1 else tmp_path / "r" / "1"
        assert outcome.checkpoint == str(place / "checkpoints" / "step-00000003")
        assert outcome.reason == "finished"


def _blocked(out: Path) -> Recorder:
    class Blocked(Recorder):
        def step(self, _: StepEvent) -> None:
            if (out / "checkpoints").is_dir():
                (out / "checkpoints").rmdir()
                (out / "checkpoints").touch()

    return Blocked()


@pytest.mark.parametrize("place", ["out", "file", "file/rescue"])
def test_a_rescue_dir_that_is_none_is_said_before_training(
    corpus: Path, tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    given = {**TINY, "dataset": corpus, "out_dir": "out", "rescue_dir": place}
    assert main(["train", *(f"--{name}={value}" for name, value in given.items())]) == 2
    assert f"--rescue_dir={place}: " in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
