"""Writes the ledger once a second in a thread, so that a slow disk never delays a step.

A killed process loses at most its last second. The thread does little but write: while it holds the GIL, the loop
waits, and on a busy machine that can take long. If the disk refuses lines, `LedgerWriter` keeps the newest and writes
them when it can.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path

from nanopace.ledger import CheckpointEvent, EndEvent, Event, LedgerWriter, ResumeEvent, RunEvent
from nanopace.ledger.codec import to_json

EVERY_S = 1.0
_PATIENCE_S = 10.0  # for a hanging disk, at the end of the run
_ALONE = (RunEvent, ResumeEvent, CheckpointEvent, EndEvent)  # each is synced to the disk


class BackgroundWriter:
    """Takes events, or their lines, and never waits for the disk."""

    def __init__(self, path: Path, on_trouble: Callable[[str], object], on_bug: Callable[[Exception], object]) -> None:
        """Raises OSError if the file cannot be opened."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._ledger = LedgerWriter(path, on_trouble=on_trouble)
        self._on_bug = on_bug
        self._queue: deque[Event | str] = deque()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._write, name="nanopace-clock", daemon=True)
        self._thread.start()

    def put(self, event: Event | str) -> None:
        self._queue.append(event)

    def close(self) -> None:
        """Write what is left. Gives up on a hanging disk."""
        self._over.set()
        self._thread.join(_PATIENCE_S)

    def _write(self) -> None:
        try:
            while not self._over.wait(EVERY_S):
                self._drain()
            self._drain()
            self._ledger.close()
        except Exception as error:  # nothing here may stop training
            self._on_bug(error)

    def _drain(self) -> None:
        gathered: list[str] = []
        while self._queue:
            event = self._queue.popleft()
            if isinstance(event, _ALONE):
                self._ledger.write_together(gathered)
                gathered = []
                self._ledger.write(event)
            else:
                gathered.append(event if isinstance(event, str) else to_json(event))
        self._ledger.write_together(gathered)
