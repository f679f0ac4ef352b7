"""What users see of a training run: a live display on a terminal, plain lines everywhere else."""

from __future__ import annotations

import os
import sys
from collections import deque
from typing import TYPE_CHECKING, Self, TextIO

from nanopace.cli.display import log_lines
from nanopace.cli.streams import new_losses
from nanopace.ledger import Event, StepEvent
from nanopace.train.listener import Introduction
from nanopace.views.terminal.writer import fit_encoding

if TYPE_CHECKING:
    from nanopace.cli.display.live import LiveDisplay
    from nanopace.train.listener import Outcome
    from nanopace.wording.catalog import Words

_DUMB = ("dumb", "unknown")


def display_for(stdout: TextIO, words: Words) -> LiveDisplay | PlainLines:
    """The live display if the terminal supports it and rich is installed. Use it in a `with`, which ends it."""
    if stdout.isatty() and os.environ.get("TERM", "").lower() not in _DUMB:
        try:
            from rich.console import Console

            from nanopace.cli.display.live import LiveDisplay
        except ImportError:
            return PlainLines(stdout, words)
        return LiveDisplay(Console(file=stdout, highlight=False), words)
    return PlainLines(stdout, words)


class Display:
    """A listener that turns everything worth showing into a line. `_log` brings it to the screen."""

    def __init__(self, words: Words) -> None:
        self._words = words
        self._intro = Introduction(out_dir="", first_step=0, last_step=0, tokens_per_step=0)
        self._iteration = 0

    def started(self, intro: Introduction) -> None:
        self._intro, self._iteration = intro, intro.first_step
        for line in log_lines.introduction(intro, self._words):
            self._log(line)

    def phase(self, name: str) -> None:
        """Only the live display shows it."""

    def event(self, event: Event) -> None:
        if isinstance(event, StepEvent):
            self._iteration = event.iteration
            if log_lines.is_worth_a_row(event, self._intro.log_interval):
                self._log(event)
        elif (line := log_lines.of_event(event, self._words)) is not None:
            self._log(line)

    def note(self, text: str) -> None:
        self._log(self._words.message(text))

    def finished(self, outcome: Outcome) -> None:
        for line in log_lines.ending(outcome, self._intro.out_dir, self._words):
            self._log(line)

    def waiting(self, text: str) -> None:
        """What takes a while before there is anything to report; '' ends it. Only the live display shows it."""

    def close(self) -> None:
        """Remove everything that does not scroll."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _log(self, line: str | StepEvent) -> None:
        """Show a line, or the row of a step."""
        raise NotImplementedError

    def _row(self, step: StepEvent) -> str:
        return log_lines.step(step, self._intro.mfu(step))

    def _report_lost_output(self) -> None:
        """Report a failed stream. Called outside any print, because the ledger may print something itself."""
        if self._intro.note_in_ledger is not None:
            for line in new_losses():
                self._intro.note_in_ledger(line, self._iteration)
                print(f"nanopace: {self._words.message(line)}", file=sys.stderr, flush=True)


class PlainLines(Display):
    """Writes every line immediately, so that a followed log is never behind."""

    def __init__(self, out: TextIO, words: Words) -> None:
        super().__init__(words)
        self._out = out
        self._waiting: deque[str] = deque()
        self._printing = False

    def _log(self, line: str | StepEvent) -> None:
        """Print a line. A note may come from a signal handler in the middle of another line: the interrupted call
        prints both."""
        self._waiting.append(line if isinstance(line, str) else self._row(line))
        if self._printing:
            return
        self._printing = True
        try:
            while self._waiting:
                self._out.write(fit_encoding(self._waiting.popleft(), self._out.encoding) + "\n")
            self._out.flush()
        finally:
            self._printing = False
        self._report_lost_output()
