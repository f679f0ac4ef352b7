from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nanopace.literals import Value
from nanopace.train.checkpoint.layout import newest_intact
from nanopace.train.loop.interrupt import ECHO_S, Interrupt

from ...cli.conftest import unmeasured
from .. import processes
from ..conftest import TINY, write_corpus
from ..fork_server import Popen
from ..runs import events

posix = pytest.mark.skipif(not hasattr(signal, "SIGTSTP"), reason="no Ctrl-Z here")


class Hand:
    """A clock set by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_the_first_asks_and_the_second_leaves() -> None:
    said: list[str] = []
    before = signal.getsignal(signal.SIGINT)
    with Interrupt(said.append) as interrupt:
        assert not interrupt.asked
        signal.raise_signal(signal.SIGINT)
        assert interrupt.asked
        assert len(said) == 1
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("kinds", [(signal.SIGINT, signal.SIGINT), (signal.SIGINT, signal.SIGTERM)])
def test_what_torchrun_passes_on_is_the_same_request(kinds: tuple[signal.Signals, signal.Signals]) -> None:
    said: list[str] = []
    clock = Hand()
    with Interrupt(said.append, clock=clock, echoed=True) as interrupt:
        signal.raise_signal(kinds[0])
        clock.now += ECHO_S / 2
        try:
            signal.raise_signal(kinds[1])
        except KeyboardInterrupt:
            pytest.fail("it left at once")
        assert interrupt.asked
        assert len(said) == 1
        clock.now += ECHO_S
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(kinds[1])


def test_alone_two_are_two_however_soon() -> None:
    with Interrupt(lambda _: None, clock=Hand()):
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)


@posix
def test_hanging_up_asks_once_however_often_and_whatever_comes_right_behind() -> None:
    """The kernel and a shell both send SIGHUP, and the end of a session sends SIGTERM."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup it is ignored
    said: list[str] = []
    clock = Hand()
    with Interrupt(said.append, clock=clock) as interrupt:
        signal.raise_signal(signal.SIGHUP)
        try:
            signal.raise_signal(signal.SIGHUP)
            signal.raise_signal(signal.SIGTERM)
            clock.now += 2 * ECHO_S
            signal.raise_signal(signal.SIGHUP)
        except KeyboardInterrupt:
            pytest.fail("it left at once")
        assert interrupt.asked
        assert len(said) == 1
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_DFL


@posix
def test_under_nohup_hanging_up_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Interrupt(lambda _: None) as interrupt:
            signal.raise_signal(signal.SIGHUP)
            assert not interrupt.asked
    finally:
        signal.signal(signal.SIGHUP, before)


@posix
def test_who_ignores_ctrl_z_goes_on_ignoring_it() -> None:
    before = signal.signal(signal.SIGTSTP, signal.SIG_IGN)
    try:
        with Interrupt(lambda _: None):
            assert signal.getsignal(signal.SIGTSTP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTSTP, before)


def command(room: Path, **knobs: Value) -> list[str]:
    """An endless training run."""
    endless = {**TINY, "max_iters": 10**6, "log_interval": 1}
    words = processes.command(room / "out", write_corpus(room / "corpus"), endless, **knobs)
    return [sys.executable, "-u", "-m", "nanopace", *words]


@contextmanager
def training(room: Path, *before: str, **knobs: Value) -> Iterator[subprocess.Popen[str]]:
    """`before` is a command that starts it as a new process."""
    process = processes.listened([*before, *command(room, **knobs)], subprocess.Popen if before else Popen)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def until(process: subprocess.Popen[str], iteration: int) -> None:
    assert process.stdout is not None
    said = ""
    for line in process.stdout:
        said += line
        if line.startswith("iter ") and int(line[5 : line.index(":")]) >= iteration:
            return
    raise AssertionError(f"it ended before iteration {iteration}:\n{said}")


@posix
@pytest.mark.parametrize("how", ["SIGTSTP", "SIGSTOP"])
def test_a_stopped_process_is_a_stall_of_its_own(tmp_path: Path, how: str) -> None:
    """A real run, stopped and continued: with Ctrl-Z, or with kill -STOP, which a process cannot notice."""
    with training(tmp_path) as process:
        until(process, 5)
        process.send_signal(signal.Signals[how])
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        stopped = time.monotonic()
        time.sleep(3)
        for _ in range(2):  # a shell's fg sends more than one at times
            process.send_signal(signal.SIGCONT)
        slept_ms = (time.monotonic() - stopped) * 1000
        until(process, events(tmp_path / "out", "step")[-1]["iteration"] + 20)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        assert process.returncode == 130
    stalls = events(tmp_path / "out", "stall")
    assert {each["reason"] for each in stalls} == {"suspend"}
    assert 2990 <= sum(each["ms"] for each in stalls) < slept_ms + 2000  # a busy machine takes its time to wake it
    assert all(each["ms"] < 1500 for each in events(tmp_path / "out", "step"))
    end = events(tmp_path / "out")[-1]
    assert end["wall_ms"] == pytest.approx(end["at_ms"], rel=0.02)


def assert_saved_where_it_stopped(room: Path) -> None:
    """An intact checkpoint of exactly the step after which it ended, and a ledger that says so."""
    end = events(room / "out")[-1]
    assert (end["event"], end["reason"]) == ("end", "interrupted")
    saved, refused = newest_intact(room / "out")
    assert not refused
    assert saved.step == events(room / "out", "step")[-1]["iteration"] + 1


@posix
def test_hanging_up_saves(tmp_path: Path) -> None:
    """A real run that has not saved before; the signal comes twice, as when a shell is closed."""
    with training(tmp_path, eval_interval=10**6) as process:
        until(process, 5)
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGHUP)
        said, _ = process.communicate(timeout=60)
        assert process.returncode == 130
    assert "Saving after this step. Press Ctrl-C again to quit now" in said
    assert_saved_where_it_stopped(tmp_path)


@posix
def test_under_nohup_a_run_goes_on(tmp_path: Path) -> None:
    with training(tmp_path, "nohup", eval_interval=10**6) as process:
        until(process, 5)
        process.send_signal(signal.SIGHUP)
        until(process, 5 + 40)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        assert process.returncode == 130
    assert_saved_where_it_stopped(tmp_path)


LEADER = """
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from nanopace.cli.main import main
sys.exit(main())
"""


@posix
@pytest.mark.parametrize("terminal", ["dumb", "xterm-256color"])
def test_a_terminal_that_is_closed_costs_no_checkpoint(tmp_path: Path, terminal: str) -> None:
    """A real one: the kernel sends SIGHUP, and all printing fails from then on, including the report."""
    ours, theirs = os.openpty()
    environment = {**unmeasured(), "OMP_NUM_THREADS": "1", "TERM": terminal}
    words = command(tmp_path, eval_interval=10**6)
    process = Popen(
        [
            sys.executable,
            "-u",
            "-c",
            LEADER,
            *(word for word in words[words.index("train") :] if word != "--no-report"),
        ],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment,
    )
    try:
        os.close(theirs)
        written = b""
        while b"iter 5:" not in written:
            written += os.read(ours, 65536)
        os.close(ours)
        assert process.wait(60) == 130
    finally:
        process.kill()
        process.wait()
    assert_saved_where_it_stopped(tmp_path)
