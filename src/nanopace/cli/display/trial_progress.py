"""The progress of `tune` and `ablate`: a bar with the time left on a terminal, otherwise a line per trial."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from nanopace.cli.display.progress_bar import WithBar, progress_bar

if TYPE_CHECKING:
    from nanopace.tune.trial import Outcome
    from nanopace.wording.catalog import Words


class TrialProgress(WithBar):
    """Writes to stderr. The bar is full after the last trial, or at the end of the budget if that limits their
    number."""

    def __init__(self, count: int | None, words: Words, budget_s: float = 0.0) -> None:
        self._count, self._words, self._done = count, words, 0
        self._budget_s, self._begin = budget_s, time.monotonic()

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            from rich.progress import TimeElapsedColumn, TimeRemainingColumn

            clock = TimeElapsedColumn() if self._count is None else TimeRemainingColumn()
            self._bar = progress_bar("{task.fields[done]}", clock, "{task.fields[last]}")
            total = self._budget_s if self._count is None else self._count
            self._task = self._bar.add_task(self._words.text("trials"), total=total, done=self._of(), last="")
            self._bar.start()
        return self

    def add(self, outcome: Outcome, changed: Sequence[str]) -> None:
        from nanopace.tune.failures import failure

        self._done += 1
        rate, words = outcome.tokens_per_second, self._words
        result = (
            failure(outcome.failure, words)
            if outcome.failure
            else words.text("{tokens} tokens/s", tokens=words.si(rate))
        )
        line = f"{'+'.join(changed) or 'A'}: {result}"
        if self._bar is None or self._task is None:
            print(f"{self._of()} {line}", file=sys.stderr, flush=True)
        elif self._count is None:  # a table that grows above the bar
            self._bar.console.print(line, markup=False, highlight=False)
            self._bar.update(self._task, completed=time.monotonic() - self._begin, done=self._of())
        else:
            self._bar.update(self._task, completed=self._done, done=self._of(), last=line)

    def drop(self, count: int) -> None:
        """That many trials will not be run."""
        if self._count is not None:
            self._count -= count
            if self._bar is not None and self._task is not None:
                self._bar.update(self._task, total=self._count, done=self._of())

    def _of(self) -> str:
        return f"{self._done}" if self._count is None else f"{self._done}/{self._count}"
