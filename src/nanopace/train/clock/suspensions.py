"""Detects `kill -STOP` and `kill -CONT`: a process cannot see itself stop, but it receives SIGCONT when it continues.

A thread polls the clock. The gap before a SIGCONT is how long the process was stopped. The thread remembers it until
the handler runs, because the handler has to wait for a long call into torch to return.
"""

from __future__ import annotations

import signal
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Self

EVERY_S = 0.05
LEAST_S = 0.25  # a shorter gap is just a busy machine

_CONTINUED = getattr(signal, "SIGCONT", None)  # Windows has none


class Stops:
    """Inside the context, calls `tell` for every stop with two moments of the monotonic clock: when this process was
    last seen running, and when it ran again."""

    def __init__(self, tell: Callable[[float, float], None]) -> None:
        self._tell = tell
        self._seen = time.monotonic()
        self._missed: deque[tuple[float, float]] = deque(maxlen=100)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="stops", daemon=True)
        self._before: Any = None

    def __enter__(self) -> Self:
        if _CONTINUED is not None:
            self._before = signal.signal(_CONTINUED, self._go_on)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if _CONTINUED is not None:
            self._over.set()
            self._thread.join()
            signal.signal(_CONTINUED, self._before)

    def _look(self) -> None:
        while not self._over.wait(EVERY_S):
            before, self._seen = self._seen, time.monotonic()
            if self._seen - before >= LEAST_S:
                self._missed.append((before, self._seen))

    def _go_on(self, *_: object) -> None:
        """Report stops. It may report one twice; the clock counts each moment once."""
        while self._missed:
            self._tell(*self._missed.popleft())
        seen, now = self._seen, time.monotonic()
        if now - seen >= LEAST_S:
            self._tell(seen, now)
