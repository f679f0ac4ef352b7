"""What a person sees of a training run: a live display on a terminal, and plain lines everywhere else."""

from __future__ import annotations

import io
import os
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Self, TextIO

from nanopace.cli import display_lines
from nanopace.views.paper import fit_encoding

if TYPE_CHECKING:
    from nanopace.cli.display_live import LiveDisplay
    from nanopace.train.listener import EvalReport, Introduction, Outcome, SaveReport, StepReport

_DUMB = ("dumb", "unknown")


def display_for(stdout: TextIO) -> LiveDisplay | PlainLines:
    """The live display where it can be shown and rich is there to show it. To be used in a `with`: it ends with it."""
    if stdout.isatty() and os.environ.get("TERM", "").lower() not in _DUMB:
        try:
            from rich.console import Console

            from nanopace.cli.display_live import LiveDisplay
        except ImportError:
            return PlainLines(stdout)
        return LiveDisplay(Console(file=stdout, highlight=False))
    return PlainLines(stdout)


def let_go(out: TextIO, error: OSError) -> None:
    """Nobody can see any more what is printed, and that shall cost no checkpoint: from now on it goes nowhere.

    A terminal that is gone has told training itself. Who reads a pipe and leaves has not.
    """
    from nanopace.train.interrupt import hang_up

    if isinstance(error, BrokenPipeError) and not hang_up():
        raise error
    with suppress(io.UnsupportedOperation), open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), out.fileno())


class PlainLines:
    """One line for everything that is worth one, written at once: a log that is followed is never behind."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._log_interval = 1
        self._out_dir = ""
        self._waiting: deque[str] = deque()
        self._printing = False

    def started(self, intro: Introduction) -> None:
        self._out_dir, self._log_interval = intro.out_dir, intro.log_interval
        for line in display_lines.introduction(intro):
            self._print(line)

    def phase(self, name: str) -> None:
        """Is in the ledger; a log has no use for it."""

    def step(self, report: StepReport, shares: Mapping[str, float]) -> None:  # noqa: ARG002
        if display_lines.is_worth_a_row(report, self._log_interval):
            self._print(display_lines.step(report))

    def evaluated(self, report: EvalReport) -> None:
        self._print(display_lines.evaluation(report))

    def saved(self, report: SaveReport) -> None:
        self._print(display_lines.saved(report))

    def note(self, text: str) -> None:
        self._print(display_lines.one_line(text))

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
        except OSError as error:
            let_go(self._out, error)
        finally:
            self._printing = False
