"""The live display on a terminal of our own, and on a real one."""

from __future__ import annotations

import io
import os
import pty
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

from ..conftest import unmeasured
from ..sample_events import checkpoint, evaluation, introduction, outcome, step
from ..screen import Screen

ROOT = Path(__file__).resolve().parents[3]


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
        displays.append(LiveDisplay(console))
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
    wait_for(lambda: "±0.0031 at 250" in terminal.screen().lines[-1])
    lines = terminal.screen().lines
    assert lines[0] == f"nanopace {__version__} train: out, 65,536 tokens a step, steps 0 to 2000"
    assert [line[:8] for line in lines[2:5]] == ["iter 0: ", "iter 100", "step 250"]
    assert [line[:8] for line in lines[5:]] == ["step 199", "now: tra", "forward+", "loss 3.2"]
    assert terminal.screen().cursor_shown  # while it runs: whoever is killed cannot bring it back


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
    starts = ["before", "nanopa", "iter 0", "iter 1", "iter 2", "saved ", "a note", "the us", "finish"]
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

def handle(*_):
    if "twice" in told:
        raise KeyboardInterrupt
    told.append("twice")
    display.note("once more leaves at once")

told = []
signal.signal(signal.SIGINT, handle)
display = display_for(sys.stdout)
with display if "with" in sys.argv else contextlib.nullcontext():
    display.started(Introduction(out_dir="out", first_step=0, last_step=10**6, tokens_per_step=8))
    for iteration in range(10**6):
        display.event(StepEvent(iteration, 1.0, loss=3.0, tokens=8, lr=1e-3))
        time.sleep(0.001)
"""


@pytest.mark.parametrize("how", ["with", "without"])
def test_ctrl_c_on_a_real_terminal_leaves_it_as_it_was(how: str) -> None:
    ours, theirs = pty.openpty()
    environment = unmeasured() | {"TERM": "xterm-256color", "COLUMNS": "100", "LINES": "30"}
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, how], stdin=theirs, stdout=theirs, stderr=theirs, env=environment, cwd=ROOT
    )
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


def read_until(file: int, mark: bytes | None) -> bytes:
    """All that is written up to a mark, or to the end."""
    written = b""
    while mark is None or mark not in written:
        try:
            more = os.read(file, 65536)
        except OSError:  # Linux says so at the end of a terminal
            more = b""
        if not more:
            assert mark is None, written[-2000:]
            break
        written += more
    return written
