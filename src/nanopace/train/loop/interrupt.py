"""Ctrl-C and SIGTERM: the first asks the loop to end after its step, the second leaves at once. Ctrl-Z stops the clock.

SIGHUP, of a terminal that was closed or a connection that was lost, asks like the first; under nohup it stays ignored.
The kernel and a shell both send it, and the end of a session sends SIGTERM right behind: that is no second request.
torchrun passes a Ctrl-C on to its processes, which have got it from the terminal already. So among several, and after
a SIGHUP, signals right after the first are the same request.
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

ECHO_S = 1.0  # within this time a signal is passed on
HANGUP = getattr(signal, "SIGHUP", None)  # Windows has none


class Interrupt:
    """While it is entered, `asked` is whether somebody wants to stop.

    `paused` is what a stop by Ctrl-Z happens in, the clock's own.
    """

    def __init__(
        self,
        note: Callable[[str], None],
        paused: Callable[[], AbstractContextManager[None]] = nullcontext,
        clock: Callable[[], float] = time.monotonic,
        *,
        echoed: bool = False,
    ) -> None:
        """`echoed`: torchrun passes on what it gets."""
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
            raise KeyboardInterrupt  # checkpoints are whole at every moment, so nothing is lost
        self._asked_at, self.asked = self._clock(), True
        self._echoed = self._echoed or number == HANGUP
        self._note(Message("Saving after this step. Press Ctrl-C again to quit now; the last checkpoint is intact."))

    def _stop(self, number: int, frame: FrameType | None) -> None:
        """Ctrl-Z. This very thread stops itself, and all others with it, so that it knows when it went on; or a display
        does so, which first brings the cursor back."""
        display = self._before[signal.SIGTSTP]
        with self._paused():
            if callable(display):
                display(number, frame)
            else:
                signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
