"""The progress of `nanopace prepare`: a bar on a terminal, otherwise a line every few seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from nanopace.cli.display.progress_bar import WithBar, bar_of_bytes

if TYPE_CHECKING:
    from nanopace.corpus.prepare.prepare import Status
    from nanopace.wording.catalog import Words

_SECONDS_BETWEEN_LINES = 5.0
_MB = 1_000_000


class PrepareProgress(WithBar):
    """Listens to `prepare` and writes to stderr."""

    def __init__(self, words: Words) -> None:
        self._words = words
        self._stage: str | None = None
        self._began = (0.0, 0)  # of this stage: when, and how many bytes were done before
        self._last_line = 0.0
        self.before: Callable[[], None] | None = None  # called before the first line

    def __call__(self, status: Status) -> None:
        now = time.monotonic()
        if self.before is not None:
            self.before()
            self.before = None
        if status.stage != self._stage:
            self._stage = status.stage
            self._began = now, status.done
            self._last_line = now
            self._task = None
        if sys.stderr.isatty():
            self._draw(status)
        elif now - self._last_line >= _SECONDS_BETWEEN_LINES:
            self._last_line = now
            print(self._line(status, now), file=sys.stderr, flush=True)

    def _called(self, status: Status) -> str:
        texts = {
            "download": self._words.text("downloading"),
            "tokenizer": self._words.text("building the tokenizer"),
            "tokens": self._words.text("tokenizing"),
        }
        return f"{texts[status.stage]} {status.which}".rstrip()

    def _line(self, status: Status, now: float) -> str:
        words = self._words
        began, before = self._began
        rate = (status.done - before) / max(now - began, 1e-3)
        parts = [f"{words.count(status.done / _MB)} MB", f"{words.number(rate / _MB, 1)} MB/s"]
        if status.total is not None:
            parts[0] = f"{words.count(status.done / _MB)} / {words.count(status.total / _MB)} MB"
        if status.tokens:
            parts.append(words.text("{tokens} tokens", tokens=words.si(status.tokens)))
        if status.total is not None and rate > 0:
            left = words.duration((status.total - status.done) / rate)
            parts.append(words.text("{time} left", time=left))
        return f"{self._called(status)}: {', '.join(parts)}"

    def _draw(self, status: Status) -> None:
        if self._bar is None:
            self._bar = bar_of_bytes("{task.fields[tokens]}")
            self._bar.start()
        if self._task is None:
            for task in self._bar.task_ids:
                self._bar.remove_task(task)
            self._task = self._bar.add_task(self._called(status), total=status.total, completed=status.done, tokens="")
        tokens = self._words.text("{tokens} tokens", tokens=self._words.si(status.tokens)) if status.tokens else ""
        self._bar.update(
            self._task, completed=status.done, total=status.total, tokens=tokens, description=self._called(status)
        )
