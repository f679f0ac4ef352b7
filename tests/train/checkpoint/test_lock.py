"""A second run in the same directory is refused while the first one lives, however that one ends."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from nanopace.cli.main import main
from nanopace.errors import InputError, UsageError
from nanopace.train.checkpoint import lock
from nanopace.train.checkpoint.layout import newest_intact
from nanopace.train.checkpoint.lock import LOCK_FILE, Claim

from .. import processes
from ..conftest import TINY
from ..runs import run

# --- a claim, alone --------------------------------------------------------------------------------------------------


def handles() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_a_claim_leaves_no_handle_open(tmp_path: Path) -> None:
    before = handles()
    with Claim(tmp_path) as claim:
        claim.take()
        held = handles()
        assert held == before + 2  # the lock file, and its directory
        claim.take()
        with Claim(tmp_path) as other, pytest.raises(UsageError):
            other.take()
        assert handles() == held
        claim.rescue(tmp_path / "rescue")
        shutil.rmtree(tmp_path)
        claim.writable_dir()
        assert handles() == held + 3
    assert handles() == before


def test_without_a_claim_nothing_is_made(tmp_path: Path) -> None:
    """For a rank that does not write."""
    with Claim(tmp_path / "out") as claim:
        assert claim.writable_dir() == tmp_path / "out"
        assert not claim.lost
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["_file_id", "_locked"])
def test_asked_again_while_it_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """As by a signal handler whose line goes to the ledger: it neither waits for itself nor takes its own new lock
    file for another run's."""
    out = tmp_path / "out"
    out.mkdir()
    answers: list[Path] = []
    with Claim(out) as claim:
        claim.take()
        shutil.rmtree(out)
        real = getattr(lock, name)

        def interrupted(*given: Any) -> Any:
            result = real(*given)
            answers.append(claim.writable_dir())
            return result

        monkeypatch.setattr(lock, name, interrupted)
        looking = Thread(target=claim.writable_dir, daemon=True)
        looking.start()
        looking.join(10)
        assert not looking.is_alive()
        assert set(answers) == {out}
        assert not claim.lost
        assert claim.writable_dir() == out


def test_a_place_to_rescue_to_is_nobodys(tmp_path: Path) -> None:
    """The directory itself, or a folder in it that no run has used or is using."""
    place = tmp_path / "a" / "rescue"
    with Claim(tmp_path / "out") as claim, Claim(tmp_path / "out") as other:
        assert claim.rescue(place) == place
        assert other.rescue(place) == place / "1"
        (place / "ledger.jsonl").touch()
        (place / "2" / "checkpoints" / "step-00000001").mkdir(parents=True)
        assert claim.rescue(place) == place / "3"
    with Claim(tmp_path / "out") as claim:
        assert claim.rescue(place) == place / "1"  # it was given back, and holds nothing


def test_what_happened_to_a_directory_is_told_once(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (tmp_path / "out.lost-1").touch()
    with Claim(out) as claim:
        claim.take()
        (out / LOCK_FILE).unlink()
        claim.writable_dir()
        assert claim.news() == []  # it is the same directory
        shutil.rmtree(out)
        claim.writable_dir()
        claim.writable_dir()
        assert claim.news() == [f"{out} was removed or renamed during training, which continues in a new {out}"]
        shutil.rmtree(out)
        with Claim(out) as other:
            out.mkdir()
            other.take()
            assert claim.writable_dir() == tmp_path / "out.lost-2"
            assert claim.news() == [
                f"{out} now belongs to another training run: it was removed or renamed while this one ran. This one "
                f"writes nothing more there, and continues in {tmp_path / 'out.lost-2'}"
            ]
        shutil.rmtree(tmp_path / "out.lost-2")
        assert claim.writable_dir() == tmp_path / "out.lost-2"
        assert claim.news() == []


def test_two_that_make_it_anew_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one was first, between our check and our lock."""
    out = tmp_path / "out"
    out.mkdir()
    plain = lock.make_directory

    def slowly(directory: Path) -> None:
        plain(directory)
        if directory == out:
            (out / LOCK_FILE).touch()

    with Claim(out) as claim:
        claim.take()
        shutil.rmtree(out)
        monkeypatch.setattr(lock, "make_directory", slowly)
        assert claim.writable_dir() == tmp_path / "out.lost-1"
        assert (tmp_path / "out.lost-1" / LOCK_FILE).exists()


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK])
def test_a_file_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, "no locks")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with Claim(tmp_path) as claim:
        claim.take()
        assert claim.writable_dir() == tmp_path


def test_a_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "fcntl", None)
    with Claim(tmp_path) as claim, Claim(tmp_path) as other:
        claim.take()
        other.take()


def test_a_lock_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(fcntl, "flock", refuse)
    before = handles()
    with (
        Claim(tmp_path) as claim,
        pytest.raises(InputError, match=rf"{LOCK_FILE}: cannot be written: Input/output error"),
    ):
        claim.take()
    assert handles() == before


def files(out: Path) -> set[str]:
    return {path.name for path in out.iterdir()}


def test_a_claim_follows_its_directory(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    with Claim(out) as claim:
        claim.take()
        assert claim.writable_dir() == out
        shutil.rmtree(out)
        assert claim.writable_dir() == out  # nobody has it: it is made again
        assert len(claim.news()) == 1
        out.rename(tmp_path / "x")
        assert claim.writable_dir() == out
        (out / LOCK_FILE).unlink()
        assert claim.writable_dir() == out
        assert (out / LOCK_FILE).exists()
        shutil.rmtree(out)
        out.mkdir()
        (out / "ledger.jsonl").touch()  # a copy of somebody's run, without its lock
        assert claim.writable_dir() == tmp_path / "out.lost-1"
        assert claim.lost
        with Claim(tmp_path / "x") as other, pytest.raises(UsageError, match="another training"):
            other.take()
        with Claim(out) as other:
            other.take()
        shutil.rmtree(tmp_path / "out.lost-1")
        assert claim.writable_dir() == tmp_path / "out.lost-1"
    assert claim.writable_dir() == tmp_path / "out.lost-1"


def test_a_lock_that_is_removed_before_it_is_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between opening and locking it: the lock would keep nobody out."""
    plain = fcntl.flock

    def remove_and_lock(handle: int, how: int) -> None:
        monkeypatch.setattr(fcntl, "flock", plain)
        (tmp_path / LOCK_FILE).unlink()
        plain(handle, how)

    monkeypatch.setattr(fcntl, "flock", remove_and_lock)
    before = handles()
    with Claim(tmp_path) as claim, Claim(tmp_path) as other:
        claim.take()
        assert handles() == before + 2  # and not the one that locks nobody out
        with pytest.raises(UsageError, match="another training"):
            other.take()


def test_looking_takes_microseconds(tmp_path: Path) -> None:
    with Claim(tmp_path) as claim:
        claim.take()
        began = time.thread_time()
        for _ in range(1000):
            claim.writable_dir()
        assert (time.thread_time() - began) / 1000 < 50e-6


def test_a_directory_that_cannot_be_locked(tmp_path: Path) -> None:
    (tmp_path / LOCK_FILE).mkdir()
    with Claim(tmp_path) as claim, pytest.raises(InputError, match="cannot be written: Is a directory"):
        claim.take()


# --- trainings -------------------------------------------------------------------------------------------------------


@pytest.fixture
def running(corpus: Path, tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """The command itself, in the middle of an endless training run."""
    out = tmp_path / "out"
    words = processes.command(out, corpus, TINY, max_iters=10**6, save_interval=5, eval_interval=1000)
    with processes.listened([sys.executable, "-m", "nanopace", *words], stdout=subprocess.DEVNULL) as process:
        while newest_intact(out)[0] is None:
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
        with pytest.raises(UsageError, match=r"--out_dir=.*out: another training run is using it"):
            run(corpus, out, **knobs)  # type: ignore[arg-type]
    assert files(out) == before
    assert process.poll() is None
    while True:  # readers are not kept out; what they have listed may be gone when they look
        assert main(["verify", str(out)]) in (0, 2)
        if "step" in capsys.readouterr().out:
            break
        assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.wait()
    saved, _ = newest_intact(out)
    outcome, _ = run(corpus, out, init_from="resume", max_iters=saved.step + 1)
    assert (outcome.reason, outcome.iteration) == ("finished", saved.step + 2)


def test_the_lock_is_given_back_at_the_end_and_after_an_error(corpus: Path, tmp_path: Path) -> None:
    run(corpus, tmp_path / "out", max_iters=1)
    with pytest.raises(UsageError, match="holds a run"):
        run(corpus, tmp_path / "out", max_iters=1)
    run(corpus, tmp_path / "out", max_iters=1, overwrite=True)
