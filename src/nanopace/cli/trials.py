"""What is shown while trials run: a bar with the time that is left on a terminal, else a line for each."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from nanopace.tune.trial import Outcome
    from nanopace.wording.catalog import Words


class Trials:
    """Writes on stderr."""

    def __init__(self, count: int | None, words: Words) -> None:
        """None: how many there will be depends on what they say."""
        self._count, self._words, self._done = count, words, 0
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
                TextColumn("{task.fields[last]}"),
                console=Console(stderr=True),
                transient=True,
            )
            self._task = self._bar.add_task(self._words.text("trials"), total=self._count, last="")
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def tell(self, outcome: Outcome, changed: Sequence[str]) -> None:
        self._done += 1
        rate = outcome.tokens_per_second
        said = outcome.failure or f"{self._words.si(rate)} {self._words.text('tokens/s')}"
        name = "+".join(changed) or "A"
        if self._bar is not None and self._task is not None:
            if self._count is None:  # a table that grows above the bar
                self._bar.console.print(f"{name}: {said}", markup=False, highlight=False)
            self._bar.update(self._task, advance=1, last=f"{name}: {said}")
        else:
            of = "" if self._count is None else f"/{self._count}"
            print(f"{self._done}{of} {name}: {said}", file=sys.stderr, flush=True)
