"""Handles Ctrl-C and SIGTERM: the first ends the loop after its step, a second one quits at once. Ctrl-Z pauses the
clock.

SIGHUP, from a closed terminal or a lost connection, counts like a first one; under nohup it stays ignored. Both the
kernel and a shell send it, and the end of a session sends SIGTERM right after it: that is not a second request.
torchrun forwards a Ctrl-C to its processes, which have already received it from the terminal. So under torchrun and
after a SIGHUP, signals right after the first count as the same request.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import FrameType
from typing import Any

from nanopace.errors import Message

ECHO_S = 1.0  # forwarded signals arrive within this time
HANGUP = getattr(signal, "SIGHUP", None)  # Windows has none


class Interrupt:
    """Inside this context, `asked` is whether the user wants to stop.

    `paused` is the clock's context for a stop by Ctrl-Z.
    """

    def __init__(
        self,
        note: Callable[[str], None],
        paused: Callable[[], AbstractContextManager[None]] = nullcontext,
        clock: Callable[[], float] = time.monotonic,
        *,
        echoed: bool = False,
    ) -> None:
        """`echoed`: torchrun forwards the signals it receives."""
        self._note, self._paused, self._clock, self._echoed = note, paused, clock, echoed
        self._before: dict[signal.Signals, Any] = {}
        self._asked_at: float | None = None
        self.asked = False

    def __enter__(self) -> Interrupt:
        for each in (signal.SIGINT, signal.SIGTERM):
            self._before[each] = signal.signal(each, self._handle)
        if HANGUP is not None and signal.getsignal(HANGUP) == signal.SIG_DFL:
            self._before[HANGUP] = signal.signal(HANGUP, self._handle)
        if hasattr(signal, "SIGTSTP") and signal.getsignal(signal.SIGTSTP) not in (signal.SIG_IGN, None):
            self._before[signal.SIGTSTP] = signal.signal(signal.SIGTSTP, self._stop)
        return self

    def __exit__(self, *_: object) -> None:
        for each, handler in self._before.items():
            signal.signal(each, handler)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if self._asked_at is not None:
            if number == HANGUP or (self._echoed and self._clock() - self._asked_at < ECHO_S):
                return
            raise KeyboardInterrupt  # checkpoints are intact at every moment, so nothing is lost
        self._asked_at, self.asked = self._clock(), True
        self._echoed = self._echoed or number == HANGUP
        self._note(Message("Saving after this step. Press Ctrl-C again to quit now; the last checkpoint is intact."))

    def _stop(self, number: int, frame: FrameType | None) -> None:
        """Ctrl-Z. This thread stops the process itself, so that it knows when it continued; or a display does so, after
        it has restored the cursor."""
        display = self._before[signal.SIGTSTP]
        with self._paused():
            if callable(display):
                display(number, frame)
            else:
                signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
