"""The live display: a few lines at the bottom of the terminal, and the log scrolling above them.

The loop's thread only takes down what it is told. Another one writes, four times a second, whatever the rate of the
steps: mostly while the loop waits for the card, so that nobody waits for a terminal.
"""

from __future__ import annotations

import atexit
import threading
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Self

from rich.control import Control
from rich.live import Live
from rich.segment import ControlType
from rich.text import Text

from nanopace.cli.display import lines as display_lines
from nanopace.cli.display.display import Display
from nanopace.cli.display.frame import State
from nanopace.views.terminal_writer import fit_encoding
from nanopace.wording.printable import one_line

if TYPE_CHECKING:
    from rich.console import Console

    from nanopace.train.listener import EvalReport, Introduction, Outcome, SaveReport, StepReport

EVERY_S = 0.25


class LiveDisplay(Display):
    """A listener. What the loop calls takes no lock: a note may come from a signal handler in the middle of a call."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console
        self._state = State()
        self._lines: deque[str | StepReport] = deque()  # to be printed above the display
        self._live = Live(console=console, get_renderable=self._frame, auto_refresh=False, transient=True)
        self._drawn_width = 0  # of the terminal, when it was last drawn
        self._drawn: list[int] = []  # and how long the lines were
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._refresh, name="nanopace-display", daemon=True)

    def started(self, intro: Introduction) -> None:
        self._meet(intro)
        self._state.started(intro)
        for line in display_lines.introduction(intro):
            self._log(line)
        self._live.start()
        # The cursor stays: a process that is killed has nobody to bring it back.
        self._console.show_cursor(True)
        atexit.register(self.close)
        self._thread.start()

    def phase(self, name: str) -> None:
        self._state.phase(name)

    def step(self, report: StepReport, shares: Mapping[str, float]) -> None:
        self._iteration = report.iteration
        self._state.step(report, shares)
        if display_lines.is_worth_a_row(report, self._log_interval):
            self._log(report)

    def evaluated(self, report: EvalReport) -> None:
        self._state.evaluated(report)
        self._log(display_lines.evaluation(report))

    def saved(self, report: SaveReport) -> None:
        self._log(display_lines.saved(report))

    def note(self, text: str) -> None:
        self._log(one_line(text))

    def finished(self, outcome: Outcome) -> None:
        for line in display_lines.ending(outcome, self._out_dir):
            self._log(line)
        self.close()

    def close(self) -> None:
        """The last lines, and the display is gone. May be called more than once, and where nothing was shown."""
        self._over.set()
        if self._thread.ident is not None:
            self._thread.join()
        self._print_lines()
        self._live.stop()
        atexit.unregister(self.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _refresh(self) -> None:
        while not self._over.wait(EVERY_S):
            if not self._print_lines():
                self._live.refresh()
            self._tell_of_losses()

    def _log(self, line: str | StepReport) -> None:
        self._lines.append(line)
        if self._thread.ident is None:  # nothing is shown yet, and nobody else prints
            self._print_lines()

    def _print_lines(self) -> bool:
        """Whether there were any. The display below them is drawn anew with them."""
        self._gather_broken_lines()
        lines = []
        while self._lines:
            line = self._lines.popleft()
            if not isinstance(line, str):
                line = display_lines.fitting_row(display_lines.step(line), self._console.width)
            lines.append(line)
        if lines:
            self._console.print(Text("\n".join(map(self._shown, lines))), soft_wrap=True)
        return bool(lines)

    def _gather_broken_lines(self) -> None:
        """A terminal that was made narrower has broken the display's lines: they take more room than rich knows of."""
        width = self._console.width
        if width < self._drawn_width:
            more = sum((each - 1) // width for each in self._drawn if each)
            self._console.control(Control(*((ControlType.ERASE_IN_LINE, 2), (ControlType.CURSOR_UP, 1)) * more))

    def _frame(self) -> Text:
        self._drawn_width = self._console.width
        lines = self._state.frame(self._drawn_width - 1)  # some terminals break a line that fills the last column
        self._drawn = [sum(len(text) for text, _ in line) for line in lines]
        shown = Text(no_wrap=True, overflow="crop")
        for number, line in enumerate(lines):
            shown.append("\n" if number else "")
            for text, style in line:
                shown.append(self._shown(text), style)
        return shown

    def _shown(self, text: str) -> str:
        return fit_encoding(text, self._console.encoding)
