"""What a person sees of a training run: a live display on a terminal, and plain lines everywhere else."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Self, TextIO

from nanopace.cli.display import lines as display_lines
from nanopace.cli.streams import new_losses
from nanopace.views.terminal_writer import fit_encoding
from nanopace.wording.printable import one_line

if TYPE_CHECKING:
    from nanopace.cli.display.live import LiveDisplay
    from nanopace.train.listener import EvalReport, Introduction, Outcome, SaveReport, StepReport

_DUMB = ("dumb", "unknown")


def display_for(stdout: TextIO) -> LiveDisplay | PlainLines:
    """The live display where it can be shown and rich is there to show it. To be used in a `with`: it ends with it."""
    if stdout.isatty() and os.environ.get("TERM", "").lower() not in _DUMB:
        try:
            from rich.console import Console

            from nanopace.cli.display.live import LiveDisplay
        except ImportError:
            return PlainLines(stdout)
        return LiveDisplay(Console(file=stdout, highlight=False))
    return PlainLines(stdout)


class Display:
    """What both have: a run's directory and rows, and a stream that may fail, which the ledger is told of."""

    def __init__(self) -> None:
        self._log_interval = 1
        self._out_dir = ""
        self._iteration = 0
        self._take_down: Callable[[str, int], None] | None = None

    def _meet(self, intro: Introduction) -> None:
        self._out_dir, self._log_interval = intro.out_dir, intro.log_interval
        self._iteration, self._take_down = intro.first_step, intro.take_down

    def _tell_of_losses(self) -> None:
        """Outside of any print, since the ledger may itself have something to say."""
        if self._take_down is not None:
            for line in new_losses():
                self._take_down(line, self._iteration)
                print(f"nanopace: {line}", file=sys.stderr, flush=True)


class PlainLines(Display):
    """One line for everything that is worth one, written at once: a log that is followed is never behind."""

    def __init__(self, out: TextIO) -> None:
        super().__init__()
        self._out = out
        self._waiting: deque[str] = deque()
        self._printing = False

    def started(self, intro: Introduction) -> None:
        self._meet(intro)
        for line in display_lines.introduction(intro):
            self._print(line)

    def phase(self, name: str) -> None:
        """Is in the ledger; a log has no use for it."""

    def step(self, report: StepReport, shares: Mapping[str, float]) -> None:  # noqa: ARG002
        self._iteration = report.iteration
        if display_lines.is_worth_a_row(report, self._log_interval):
            self._print(display_lines.step(report))

    def evaluated(self, report: EvalReport) -> None:
        self._print(display_lines.evaluation(report))

    def saved(self, report: SaveReport) -> None:
        self._print(display_lines.saved(report))

    def note(self, text: str) -> None:
        self._print(one_line(text))

    def finished(self, outcome: Outcome) -> None:
        for line in display_lines.ending(outcome, self._out_dir):
            self._print(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """There is nothing to clear away."""

    def _print(self, line: str) -> None:
        """A note may come from a signal handler in the middle of another line: whoever is at that one prints both."""
        self._waiting.append(line)
        if self._printing:
            return
        self._printing = True
        try:
            while self._waiting:
                self._out.write(fit_encoding(self._waiting.popleft(), self._out.encoding) + "\n")
            self._out.flush()
        finally:
            self._printing = False
        self._tell_of_losses()
