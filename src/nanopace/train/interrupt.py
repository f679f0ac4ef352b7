"""Ctrl-C and SIGTERM: the first asks the loop to end after its step, the second leaves at once."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType
from typing import Any


class Interrupt:
    """While it is entered, `asked` tells whether somebody wants to stop."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._before: dict[signal.Signals, Any] = {}
        self.asked = False

    def __enter__(self) -> Interrupt:
        for each in (signal.SIGINT, signal.SIGTERM):
            self._before[each] = signal.signal(each, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for each, handler in self._before.items():
            signal.signal(each, handler)

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt  # checkpoints are whole at every moment, so nothing is lost
        self.asked = True
        self._tell("finishing the step and saving; once more leaves at once, with the last checkpoint whole")
