"""The live display: a few lines at the bottom of the terminal, with the log scrolling above them.

The loop's thread only stores what it reports. Another thread writes four times a second, whatever the rate of the
steps: mostly while the loop waits for the card, so that the loop never waits for the terminal. The cursor is hidden
meanwhile.
"""

from __future__ import annotations

import atexit
import threading
from collections import deque
from typing import TYPE_CHECKING

from rich.control import Control
from rich.live import Live
from rich.segment import ControlType
from rich.text import Text

from nanopace.cli.display.cursor import Cursor
from nanopace.cli.display.display import Display
from nanopace.cli.display.frame import State
from nanopace.cli.display.log_lines import fitting_row, wrapped
from nanopace.views.terminal.writer import fit_encoding

if TYPE_CHECKING:
    from rich.console import Console

    from nanopace.ledger import Event, StepEvent
    from nanopace.train.listener import Introduction, Outcome
    from nanopace.wording.catalog import Words

EVERY_S = 0.25


class LiveDisplay(Display):
    """A listener. Its methods take no lock, because a note may come from a signal handler in the middle of a call."""

    def __init__(self, console: Console, words: Words) -> None:
        super().__init__(words)
        self._console = console
        self._cursor = Cursor(console.file)
        self._waiting = False  # the cursor is at the end of a line that says what takes a while
        self._state = State(words)
        self._lines: deque[str | StepEvent] = deque()  # to be printed above the display
        self._live = Live(console=console, get_renderable=self._frame, auto_refresh=False, transient=True)
        self._drawn_width = 0  # width of the terminal when last drawn
        self._drawn: list[int] = []  # lengths of the lines then
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._refresh, name="nanopace-display", daemon=True)

    def started(self, intro: Introduction) -> None:
        self._state.started(intro)
        super().started(intro)
        atexit.register(self.close)
        self._cursor.guard()
        self._live.start()
        self._thread.start()

    def waiting(self, text: str) -> None:
        if self._waiting:
            self._console.control(Control(ControlType.CARRIAGE_RETURN, (ControlType.ERASE_IN_LINE, 2)))
        self._waiting = bool(text)
        if text:
            self._console.print(Text(self._shown(text), "dim"), end="", soft_wrap=True)
        self._console.file.flush()

    def phase(self, name: str) -> None:
        self._state.phase(name)

    def event(self, event: Event) -> None:
        self._state.event(event)
        super().event(event)

    def finished(self, outcome: Outcome) -> None:
        super().finished(outcome)
        self.close()

    def close(self) -> None:
        """Print the last lines and remove the display. May be called twice, or before anything was shown."""
        self._over.set()
        if self._thread.ident is not None:
            self._thread.join()
        self._print_lines()
        if self._waiting:
            self.waiting("")
        self._live.stop()
        self._cursor.release()
        atexit.unregister(self.close)

    def _refresh(self) -> None:
        while not self._over.wait(EVERY_S):
            if not self._print_lines():
                self._live.refresh()
            self._report_lost_output()

    def _log(self, line: str | StepEvent) -> None:
        self._lines.append(line)
        if self._thread.ident is None:  # nothing is shown yet, and nothing else prints
            self._print_lines()

    def _print_lines(self) -> bool:
        """Print the waiting lines and redraw the display below them. Return whether there were any."""
        self._gather_broken_lines()
        lines, width = [], self._console.width - 1
        while self._lines:
            line = self._lines.popleft()
            lines.append(wrapped(line if isinstance(line, str) else fitting_row(self._row(line), width), width))
        if lines:
            if self._waiting:
                self.waiting("")
            self._console.print(Text("\n".join(map(self._shown, lines))), soft_wrap=True)
        return bool(lines)

    def _gather_broken_lines(self) -> None:
        """If the terminal became narrower, it wrapped the display's lines, so that they take more room than rich
        knows."""
        width = self._console.width
        if width < self._drawn_width:
            more = sum((each - 1) // width for each in self._drawn if each)
            self._console.control(Control(*((ControlType.ERASE_IN_LINE, 2), (ControlType.CURSOR_UP, 1)) * more))

    def _frame(self) -> Text:
        self._drawn_width = self._console.width
        lines = self._state.frame(self._drawn_width - 1)  # some terminals wrap a line that fills the last column
        self._drawn = [sum(len(text) for text, _ in line) for line in lines]
        shown = Text(no_wrap=True, overflow="crop")
        for number, line in enumerate(lines):
            shown.append("\n" if number else "")
            for text, style in line:
                shown.append(self._shown(text), style)
        return shown

    def _shown(self, text: str) -> str:
        return fit_encoding(text, self._console.encoding)
