"""Where trials are kept, and what is shown while they run: a bar with the time that is left on a terminal, else a line
for each."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from nanopace.errors import UsageError
from nanopace.files import check_own, read_bounded, write_durably

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from nanopace.tune.trial import Outcome
    from nanopace.wording.catalog import Words


_PLAN = "plan.json"


@contextmanager
def room_for_trials(keep: str | None, plan: str) -> Iterator[Path]:
    """The directory that is named, or one of its own that is gone afterwards."""
    if keep is not None:
        folder = Path(keep)
        _claim(folder, plan)
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="nanopace-trials-") as name:
        yield Path(name)


def _claim(folder: Path, plan: str) -> None:
    """For the trials of this plan alone: those of another would be mixed into them."""
    from nanopace.tune.results import RESULTS

    try:
        folder.mkdir(parents=True, exist_ok=True)
        file, wanted = folder / _PLAN, plan.encode()
        for name in (_PLAN, RESULTS):
            check_own(folder / name)
        if os.path.lexists(file):
            if read_bounded(file, len(wanted)) != wanted:
                raise UsageError("{path}: holds other runs; name another directory, or remove it", path=folder)
        elif any(folder.iterdir()):
            raise UsageError("{path}: is not empty; name another directory, or remove it", path=folder)
        else:
            write_durably(file, wanted)
    except OSError as error:
        raise UsageError("{path}: cannot be written: {reason}", path=folder, reason=error.strerror or error) from None


class Trials:
    """Writes on stderr. The bar is full with the last trial, or with the budget where it decides how many there are."""

    def __init__(self, count: int | None, words: Words, budget_s: float = 0.0) -> None:
        self._count, self._words, self._done = count, words, 0
        self._budget_s, self._begin = budget_s, time.monotonic()
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.fields[done]}"),
                TimeElapsedColumn() if self._count is None else TimeRemainingColumn(),
                TextColumn("{task.fields[last]}"),
                console=Console(stderr=True),
                transient=True,
            )
            total = self._budget_s if self._count is None else self._count
            self._task = self._bar.add_task(self._words.text("trials"), total=total, done=self._of(), last="")
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def tell(self, outcome: Outcome, changed: Sequence[str]) -> None:
        from nanopace.tune.search.tune_view import failure

        self._done += 1
        rate, words = outcome.tokens_per_second, self._words
        said = failure(outcome.failure, words) if outcome.failure else f"{words.si(rate)} {words.text('tokens/s')}"
        line = f"{'+'.join(changed) or 'A'}: {said}"
        if self._bar is None or self._task is None:
            print(f"{self._of()} {line}", file=sys.stderr, flush=True)
        elif self._count is None:  # a table that grows above the bar
            self._bar.console.print(line, markup=False, highlight=False)
            self._bar.update(self._task, completed=time.monotonic() - self._begin, done=self._of())
        else:
            self._bar.update(self._task, completed=self._done, done=self._of(), last=line)

    def _of(self) -> str:
        return f"{self._done}" if self._count is None else f"{self._done}/{self._count}"
