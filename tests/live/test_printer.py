"""Lines, comments and footer on one output: the trainer's output is unchanged, with nothing inserted inside a line."""

from __future__ import annotations

import os
import pty
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanopace.live import printer as printer_module
from nanopace.live.printer import PREFIX, Printer

from ..cli.screen import Screen

LINE_PARTS = st.sampled_from(
    [b"iter 1: ", b"loss 3\n", b"\n", b"\rbar 10%", b"\x1b[31mred\x1b[0m", b"\xc3", b"\xa9", b"\r\n"]
)
COMMENT = f"{PREFIX}ours\n".encode()


@pytest.fixture
def piped() -> Iterator[tuple[Printer, Callable[[], bytes]]]:
    """A printer that writes to a pipe, and its output."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)

    def out() -> bytes:
        try:
            return os.read(reading, 1 << 20)
        except BlockingIOError:
            return b""

    yield Printer(writing, terminal=False, color=False, encoding="utf-8"), out
    os.close(reading)
    os.close(writing)


@given(st.lists(LINE_PARTS | st.none(), max_size=40))
def test_bytes_pass_as_they_are_and_comments_stand_on_lines_of_their_own(parts: list[bytes | None]) -> None:
    """None stands for a comment. It is printed as soon as the line before it has ended, not in the middle of one."""
    reading, writing = os.pipe()
    printer = Printer(writing, terminal=False, color=False, encoding="utf-8")
    passed = b"".join(part for part in parts if part is not None)
    for part in parts:
        if part is None:
            printer.comment("ours")
        else:
            printer.pass_on(part)
    sofar = os.read(reading, 1 << 20) if parts else b""
    assert sofar.replace(COMMENT, b"") == passed
    assert all(at == 0 or sofar[at - 1 : at] == b"\n" for at in _places(sofar, COMMENT))
    printer.close()
    os.close(writing)
    rest = os.read(reading, 1 << 20)
    os.close(reading)
    assert (sofar + rest).count(COMMENT) == parts.count(None)
    assert (sofar + rest).replace(COMMENT, b"").rstrip(b"\n") == passed.rstrip(b"\n")


def _places(text: bytes, part: bytes) -> Iterator[int]:
    at = text.find(part)
    while at >= 0:
        yield at
        at = text.find(part, at + 1)


def test_half_a_line_is_there_at_once_and_a_comment_waits(piped: tuple[Printer, Callable[[], bytes]]) -> None:
    printer, out = piped
    printer.pass_on(b"iter 1: lo")
    assert out() == b"iter 1: lo"
    printer.comment("ours")
    assert out() == b""
    printer.pass_on(b"ss 3\niter 2")
    assert out() == b"ss 3\n" + COMMENT + b"iter 2"


def test_behind_a_progress_bar_a_comment_waits_no_longer_than_a_moment(
    piped: tuple[Printer, Callable[[], bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    printer, out = piped
    printer.pass_on(b"\r 10%|#   |")
    printer.comment("ours")
    printer.show(())
    assert out() == b"\r 10%|#   |"
    monkeypatch.setattr(printer_module, "PATIENCE_S", -1.0)
    printer.show(())
    assert out() == b"\n" + COMMENT
    printer.pass_on(b"and no bar")
    printer.comment("ours")
    printer.show(())
    assert out() == b"and no bar", "a line that may go on is not broken"


def test_an_output_that_fails_is_nobody_s_end() -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    printer = Printer(full, terminal=False, color=False, encoding="utf-8")
    printer.pass_on(b"iter 1\n")
    printer.comment("ours")
    printer.close()
    os.close(full)
    assert printer.failure == "No space left on device"


def test_a_comment_cannot_move_the_cursor(piped: tuple[Printer, Callable[[], bytes]]) -> None:
    printer, out = piped
    printer.comment("a\x1b[2Jb\nc\u00a0ms")
    assert out() == f"{PREFIX}a [2Jb c ms\n".encode()


# --- a terminal ------------------------------------------------------------------------------------------------------


class Terminal:
    """A printer on a terminal of 60 columns, and what it shows."""

    def __init__(self, *, color: bool = False) -> None:
        self._ours, theirs = pty.openpty()
        tty.setraw(theirs)
        termios.tcsetwinsize(theirs, (24, 60))
        os.set_blocking(self._ours, False)
        self._received = b""
        self.printer = Printer(theirs, terminal=True, color=color, encoding="utf-8")

    def received(self) -> bytes:
        with suppress(BlockingIOError):
            while chunk := os.read(self._ours, 1 << 16):
                self._received += chunk
        return self._received

    @property
    def lines(self) -> list[str]:
        return Screen(self.received().decode()).lines


@pytest.mark.parametrize("tail", ["", "iter 3: lo", "\x1b[32miter 3\x1b[0m: lo", "\r 10%|#", "café é"])
def test_the_footer_stands_below_and_the_line_goes_on_where_it_was(tail: str) -> None:
    terminal = Terminal()
    terminal.printer.pass_on(b"iter 1\r\niter 2\r\n" + tail.encode())
    terminal.printer.show(["50% done", "loss 3"])
    plain = tail.replace("\x1b[32m", "").replace("\x1b[0m", "").lstrip("\r")
    assert terminal.lines == ["iter 1", "iter 2", plain, "50% done", "loss 3"]
    terminal.printer.pass_on(b"ss 4")
    terminal.printer.show(["60% done"])
    assert terminal.lines == ["iter 1", "iter 2", plain + "ss 4", "60% done"]
    terminal.printer.pass_on(b"\r\n")
    terminal.printer.comment("ours")
    terminal.printer.close()
    assert terminal.lines[-1] == f"{PREFIX}ours"
    assert not any("done" in line for line in terminal.lines)


@pytest.mark.parametrize("tail", [b"half a character \xc3", b"half a colour \x1b[3", b"\x1b[5Aelsewhere", b"x" * 60])
def test_where_the_cursor_is_unknown_nothing_is_drawn(tail: bytes) -> None:
    terminal = Terminal()
    terminal.printer.pass_on(tail)
    terminal.printer.show(["50% done"])
    assert b"done" not in terminal.received()


def test_a_long_comment_is_wrapped_at_words_on_a_terminal() -> None:
    """A terminal would break it inside a word. Every line of it is a comment."""
    terminal = Terminal(color=True)
    terminal.printer.comment(
        "iteration 100 took 5.79\u00a0s: an evaluation (5.13\u00a0s) and a checkpoint (0.49\u00a0s), 3% of it"
    )
    terminal.printer.comment("short", "alert")
    while b"short" not in terminal.received():  # it hands on what it has so far
        pass
    assert terminal.lines == [
        "# nanopace: iteration 100 took 5.79 s: an evaluation",
        "#   (5.13 s) and a checkpoint (0.49 s), 3% of it",
        "# nanopace: short",
    ]
