from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nanopace.train.interrupt import ECHO_S, Interrupt

from ..cli.conftest import unmeasured  # noqa: TID252
from .conftest import TINY, write_corpus

posix = pytest.mark.skipif(not hasattr(signal, "SIGTSTP"), reason="no Ctrl-Z here")


class Hand:
    """A clock that is set by hand."""

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
def test_who_ignores_ctrl_z_goes_on_ignoring_it() -> None:
    before = signal.signal(signal.SIGTSTP, signal.SIG_IGN)
    try:
        with Interrupt(lambda _: None):
            assert signal.getsignal(signal.SIGTSTP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTSTP, before)


@contextmanager
def training(room: Path) -> Iterator[subprocess.Popen[str]]:
    given = {**TINY, "dataset": str(write_corpus(room / "corpus")), "out_dir": str(room / "out"), "max_iters": 10**6}
    flags = [f"--{name}={value}" for name, value in given.items()]
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "nanopace", "train", *flags, "--no-report"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**unmeasured(), "OMP_NUM_THREADS": "1"},
    )
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
def test_ctrl_z_is_a_stall_of_its_own(tmp_path: Path) -> None:
    """A real run, stopped and continued."""
    with training(tmp_path) as process:
        until(process, 5)
        process.send_signal(signal.SIGTSTP)
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        stopped = time.monotonic()
        time.sleep(3)
        for _ in range(2):  # a shell's fg sends more than one at times
            process.send_signal(signal.SIGCONT)
        slept_ms = (time.monotonic() - stopped) * 1000
        events = [json.loads(line) for line in (tmp_path / "out" / "ledger.jsonl").read_text().splitlines()]
        until(process, max(each["iteration"] for each in events if each["event"] == "step") + 20)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        assert process.returncode == 130
    events = [json.loads(line) for line in (tmp_path / "out" / "ledger.jsonl").read_text().splitlines()]
    (stall,) = [each for each in events if each["event"] == "stall"]
    assert stall["reason"] == "suspend"
    assert 2990 <= stall["ms"] < slept_ms + 2000  # a busy machine takes its time to wake it
    assert all(each["ms"] < 2990 for each in events if each["event"] == "step")
    assert events[-1]["wall_ms"] == pytest.approx(events[-1]["at_ms"], rel=0.02)
