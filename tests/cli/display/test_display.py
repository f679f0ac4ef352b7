"""Plain lines when there is no terminal, and the choice between them and the live display."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from typing import TextIO

import pytest

from nanopace.cli.display.display import PlainLines, display_for
from nanopace.cli.display.live import LiveDisplay
from nanopace.train.listener import Listener
from nanopace.version import __version__
from nanopace.wording.catalog import words

from ..sample_events import checkpoint, evaluation, introduction, outcome, step


class Watched(io.StringIO):
    """Records what was flushed and what was not."""

    flushed = ""

    def flush(self) -> None:
        self.flushed = self.getvalue()


def run(listener: Listener) -> None:
    listener.phase("startup")
    listener.started(introduction(log_interval=100))
    listener.phase("step")
    for iteration in range(98, 103):
        listener.event(step(iteration))
    listener.event(evaluation())
    listener.event(checkpoint())
    listener.note("the disk\nis slow")
    listener.finished(outcome(utilisation=0.5, measured_tflops=600.0, logging=0.02))


def test_every_line_in_its_order() -> None:
    out = io.StringIO()
    with PlainLines(out, words()) as lines:
        run(lines)
    assert out.getvalue() == (
        f"nanopace {__version__} train: out, 65,536 tokens a step, steps 0 to 2000\n"
        "  device: cpu: found no CUDA card\n"
        "iter 100: loss 3.2841, time 168.65ms, mfu 41.20%, 388592 tok/s, norm 0.84, lr 6.00e-04\n"
        "step 250: train loss (last 250 steps) 3.3121, val loss 3.2841, time 812.40ms, val error 0.0031, "
        "train error 0.0103, 0.9871 bits per byte, change -0.0312 (error 0.0009)\n"
        "saved out/checkpoints/step-00000250, time 12.30ms, in the background 1840.00ms, 1.48 GB\n"
        "the disk is slow\n"
        "a typical step reaches 50.0% of the 600 TFLOP/s that nanopace tune measured here\n"
        "the times above leave out logging, which took 2.0% on top of them\n"
        "finished after 2000 steps in 2 min 3 s, 0.012 kWh\n"
    )


def test_a_line_is_there_at_once() -> None:
    out = Watched()
    lines = PlainLines(out, words())
    for iteration in range(3):
        lines.event(step(iteration))
        assert out.flushed.splitlines()[-1].startswith(f"iter {iteration}: ")


def test_a_note_in_the_middle_of_a_line_comes_after_it() -> None:
    """As from a signal handler, which may run during the write."""

    class Interrupted(io.StringIO):
        def write(self, text: str) -> int:
            if text.startswith("iter"):
                lines.note("interrupted")
            return super().write(text)

    out = Interrupted()
    lines = PlainLines(out, words())
    lines.event(step(7))
    lines.note("later")
    assert [line[:6] for line in out.getvalue().splitlines()] == ["iter 7", "interr", "later"]


@pytest.fixture
def terminal() -> Iterator[TextIO]:
    ours, theirs = os.openpty()
    with os.fdopen(theirs, "w") as file:
        yield file
    os.close(ours)


def test_a_terminal_gets_the_live_display(terminal: TextIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    assert isinstance(display_for(terminal, words()), LiveDisplay)


@pytest.mark.parametrize("name", ["dumb", "DUMB", "unknown"])
def test_a_dumb_terminal_gets_plain_lines(terminal: TextIO, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("TERM", name)
    assert isinstance(display_for(terminal, words()), PlainLines)


def test_a_file_gets_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    assert isinstance(display_for(io.StringIO(), words()), PlainLines)


def test_without_rich_there_are_plain_lines(terminal: TextIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setitem(sys.modules, "rich.console", None)  # importing it raises ImportError
    assert isinstance(display_for(terminal, words()), PlainLines)


def test_what_stands_out_has_a_row_whether_it_is_its_turn_or_not() -> None:
    out = io.StringIO()
    lines = PlainLines(out, words())
    lines.started(introduction(log_interval=100, choices={}))
    for report in (step(101, spike=8.3), step(102), step(103, skipped=True)):
        lines.event(report)
    assert [line.split(":")[0] for line in out.getvalue().splitlines()[1:]] == ["iter 101", "iter 103"]


def test_a_log_that_has_no_greek_letters() -> None:
    raw = io.BytesIO()
    lines = PlainLines(io.TextIOWrapper(raw, encoding="ascii"), words())
    lines.started(introduction(choices={}))
    lines.event(step(spike=8.3))
    assert b"mfu 41.20%, spike 8.3?, 388592 tok/s" in raw.getvalue()
