"""The live display on a simulated terminal, and on a real one."""

from __future__ import annotations

import io
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from rich.console import Console

from nanopace.cli.display import live as display_live
from nanopace.cli.display.live import LiveDisplay
from nanopace.version import __version__
from nanopace.wording.catalog import words

from ..conftest import unmeasured
from ..sample_events import checkpoint, evaluation, introduction, outcome, step
from ..screen import Screen

ROOT = Path(__file__).resolve().parents[3]
SHOWN, HIDDEN = b"\x1b[?25h", b"\x1b[?25l"


class Terminal(io.StringIO):
    encoding = "utf-8"  # type: ignore[assignment]

    def screen(self) -> Screen:
        return Screen(self.getvalue())


@pytest.fixture
def terminal() -> Terminal:
    return Terminal()


Begin = Callable[..., LiveDisplay]


@pytest.fixture
def begin(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> Iterator[Begin]:
    monkeypatch.setattr(display_live, "EVERY_S", 0.01)
    displays: list[LiveDisplay] = []

    def begin() -> LiveDisplay:
        console = Console(file=terminal, force_terminal=True, width=100, height=30, color_system=None)
        displays.append(LiveDisplay(console, words()))
        return displays[-1]

    yield begin
    for display in displays:
        display.close()


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_the_log_scrolls_above_the_display(terminal: Terminal, begin: Begin) -> None:
    display = begin()
    display.started(introduction(log_interval=100))
    display.phase("step")
    for iteration in range(200):
        display.event(step(iteration))
    display.event(evaluation())
    wait_for(lambda: "±0.003 at 250" in terminal.screen().lines[-1])
    lines = terminal.screen().lines
    assert lines[0] == f"nanopace {__version__} train: out, 65,536 tokens a step, steps 0 to 2000"
    assert [line[:8] for line in lines[2:5]] == ["iter 0: ", "iter 100", "step 250"]
    assert lines[5].startswith("  ")  # the rest of the evaluation
    assert [line[:8] for line in lines[6:]] == ["step 199", "now: tra", "forward+", "loss 3.2"]
    assert not terminal.screen().cursor_shown
    display.close()
    assert terminal.screen().cursor_shown


def test_in_the_end_only_the_log_is_left(terminal: Terminal, begin: Begin) -> None:
    display = begin()
    display.note("before it began")
    assert terminal.screen().lines == ["before it began"]
    display.started(introduction(choices={}))
    for iteration in range(3):
        display.event(step(iteration))
        time.sleep(0.02)
    display.event(checkpoint())
    display.note("a note\x1b[2J")
    display.finished(outcome(utilisation=0.5, measured_tflops=600.0))
    display.close()
    lines = terminal.screen().lines
    starts = ["before", "nanopa", "iter 0", "iter 1", "iter 2", "saved ", "a note", "a typi", "finish"]
    assert [line[:6] for line in lines] == starts
    assert terminal.screen().cursor_shown


@pytest.mark.usefixtures("untraced")
def test_with_a_line_for_every_step_no_line_is_lost(terminal: Terminal, begin: Begin) -> None:
    display = begin()
    display.started(introduction(choices={}))
    began = time.perf_counter()
    for iteration in range(5000):
        display.event(step(iteration))
    each = (time.perf_counter() - began) / 5000
    display.finished(outcome())
    rows = [line.partition(":")[0] for line in terminal.screen().lines if line.startswith("iter")]
    assert rows == [f"iter {iteration}" for iteration in range(5000)]
    assert each < 50e-6


def test_it_draws_no_more_than_a_few_times_a_second(begin: Begin) -> None:
    display = begin()
    frames: list[int] = []
    drawn = display._state.frame
    display._state.frame = lambda width: frames.append(width) or drawn(width)  # type: ignore[method-assign, func-returns-value]
    display.started(introduction(log_interval=1_000_000))
    began = time.monotonic()
    while time.monotonic() < began + 0.3:
        display.event(step(1))
        display.phase("step")
    display.close()
    assert 3 <= len(frames) <= 0.3 / 0.01 + 5


def test_a_terminal_that_was_made_narrower_is_tidied_up(terminal: Terminal, begin: Begin) -> None:
    display = begin()
    display.started(introduction(log_interval=1000, choices={}))
    display.event(step(1))
    wait_for(lambda: len(terminal.screen().lines) > 4)
    broken = sum((drawn - 1) // 30 for drawn in display._drawn)
    assert broken >= 3
    display._over.set()
    display._thread.join()
    before = len(terminal.getvalue())
    display._console.width = 30
    display._print_lines()
    assert terminal.getvalue()[before:] == "\x1b[2K\x1b[1A" * broken
    display._live.refresh()
    before = len(terminal.getvalue())
    display._print_lines()
    assert terminal.getvalue()[before:] == ""


def test_a_terminal_without_blocks_gets_what_it_has(terminal: Terminal, begin: Begin) -> None:
    terminal.encoding = "ascii"  # type: ignore[misc]
    display = begin()
    display.started(introduction(out_dir="größe", choices={}))
    for iteration in range(3):
        display.event(step(iteration))
    display.event(evaluation())
    wait_for(lambda: "at 250" in terminal.screen().lines[-1])
    assert terminal.getvalue().isascii()


def test_leaving_its_context_closes_it(terminal: Terminal, begin: Begin) -> None:
    with begin() as display:
        display.started(introduction(choices={}))
        display.event(step(7))
    assert [line[:6] for line in terminal.screen().lines] == ["nanopa", "iter 7"]


def test_one_that_never_began_leaves_no_trace(terminal: Terminal, begin: Begin) -> None:
    begin().close()
    assert terminal.getvalue() == ""


PROGRAM = """
import contextlib, signal, sys, time
from nanopace.cli.display.display import display_for
from nanopace.ledger import StepEvent
from nanopace.train.listener import Introduction
from nanopace.train.loop.interrupt import Interrupt
from nanopace.wording.catalog import words

def handle(*_):
    if "twice" in told:
        raise KeyboardInterrupt
    told.append("twice")
    display.note("once more leaves at once")

told = []
signal.signal(signal.SIGINT, handle)
display = display_for(sys.stdout, words())
with display if "with" in sys.argv else contextlib.nullcontext():
    display.started(Introduction(out_dir="out", first_step=0, last_step=10**6, tokens_per_step=8))
    if "loop" in sys.argv:
        Interrupt(display.note).__enter__()
    for iteration in range(10**6):
        display.event(StepEvent(iteration, 1.0, loss=3.0, tokens=8, lr=1e-3))
        time.sleep(0.001)
"""


@pytest.mark.parametrize("how", ["with", "without"])
def test_ctrl_c_on_a_real_terminal_leaves_it_as_it_was(how: str) -> None:
    ours, theirs = pty.openpty()
    process = started_on(theirs, how)
    os.close(theirs)
    written = read_until(ours, b"iter 50:")
    process.send_signal(signal.SIGINT)
    written += read_until(ours, b"once more leaves at once")
    process.send_signal(signal.SIGINT)
    written += read_until(ours, None)
    os.close(ours)
    assert process.wait(30) != 0
    screen = Screen(written.decode().replace("\x1b[0m", ""))
    assert screen.cursor_shown
    assert "once more leaves at once" in screen.lines
    assert "KeyboardInterrupt" in screen.lines
    assert how == "without" or screen.lines[-1] == "KeyboardInterrupt"
    assert not any(line.startswith(("step ", "now:")) for line in screen.lines)


def started_on(theirs: int, *how: str) -> subprocess.Popen[bytes]:
    environment = unmeasured() | {"TERM": "xterm-256color", "COLUMNS": "100", "LINES": "30"}
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *how], stdin=theirs, stdout=theirs, stderr=theirs, env=environment, cwd=ROOT
    )


def test_a_process_that_is_ended_leaves_the_cursor_shown() -> None:
    ours, theirs = pty.openpty()
    process = started_on(theirs)
    os.close(theirs)
    written = read_until(ours, b"iter 50:")
    assert written.count(HIDDEN) == 1
    assert SHOWN not in written
    process.send_signal(signal.SIGTERM)
    written = read_until(ours, None)
    os.close(ours)
    assert process.wait(30) == -signal.SIGTERM
    assert written.rstrip().endswith(SHOWN)


@pytest.mark.parametrize("how", ["alone", "loop"])
def test_ctrl_z_brings_the_cursor_back_and_fg_hides_it(how: str) -> None:
    """Also if the loop handles Ctrl-Z to stop its clock."""
    ours, theirs = pty.openpty()
    process = started_on(theirs, how)
    os.close(theirs)
    read_until(ours, b"iter 50:")
    process.send_signal(signal.SIGTSTP)
    written = read_until(ours, SHOWN)
    assert os.WIFSTOPPED(os.waitpid(process.pid, os.WUNTRACED)[1])
    process.send_signal(signal.SIGCONT)
    written = read_until(ours, HIDDEN)
    assert SHOWN not in written
    process.send_signal(signal.SIGTERM)
    if how == "loop":  # the first one only asks
        read_until(ours, b"Saving after this step.")
        process.send_signal(signal.SIGTERM)
    assert SHOWN in read_until(ours, None)
    os.close(ours)
    process.wait(30)


def test_what_takes_a_while_is_said_and_goes_when_there_is_more_to_say(terminal: Terminal, begin: Begin) -> None:
    display = begin()
    display.waiting("Loading PyTorch ...")
    assert terminal.screen().lines == ["Loading PyTorch ..."]
    display.waiting("Preparing the run ...")
    assert terminal.screen().lines == ["Preparing the run ..."]
    display.note("a note")
    assert terminal.screen().lines == ["a note"]
    display.waiting("more")
    display.started(introduction(choices={}))
    display.finished(outcome())
    assert [line[:6] for line in terminal.screen().lines] == ["a note", "nanopa", "finish"]


def test_one_that_fails_while_it_waits_leaves_an_empty_line(terminal: Terminal, begin: Begin) -> None:
    with begin() as display:
        display.waiting("Loading PyTorch ...")
    assert terminal.screen().lines == [""]


@pytest.mark.slow
def test_something_is_there_within_a_second(tmp_path: Path) -> None:
    """With the real command, long before torch is imported."""
    ours, theirs = pty.openpty()
    environment = unmeasured() | {"TERM": "xterm-256color", "COLUMNS": "60", "LINES": "30", "LANG": "C.UTF-8"}
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "nanopace", "train", "--init_from=resume"],
        stdin=theirs, stdout=theirs, stderr=theirs, env=environment, cwd=tmp_path,
    )  # fmt: skip
    os.close(theirs)
    written = read_until(ours, b"Loading PyTorch ...")
    took = time.monotonic() - began
    written += read_until(ours, None)
    os.close(ours)
    assert process.wait(60) == 2
    assert Screen(written.decode()).lines[0].startswith("nanopace: out: no checkpoint to resume from")
    assert took < 1.0


def read_until(file: int, mark: bytes | None) -> bytes:
    """Everything written up to a mark, or to the end."""
    written = b""
    while mark is None or mark not in written:
        assert select.select([file], [], [], 20)[0], f"no {mark!r} in {written[-2000:]!r}"
        try:
            more = os.read(file, 65536)
        except OSError:  # Linux raises this at the end of a terminal
            more = b""
        if not more:
            assert mark is None, written[-2000:]
            break
        written += more
    return written
