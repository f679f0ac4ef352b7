"""`kill -STOP` and `kill -CONT`: nobody hears that a process is stopped, but it can hear that it goes on.

A thread looks at the clock again and again. What it missed before a SIGCONT is what the process was stopped. Until the
handler runs, which waits for a long call into torch to return, the thread remembers it.
"""

from __future__ import annotations

import signal
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Self

EVERY_S = 0.05
LEAST_S = 0.25  # less is a busy machine

_CONTINUED = getattr(signal, "SIGCONT", None)  # Windows has none


class Stops:
    """While it is entered, `tell` hears of every stop: at which moment of the monotonic clock this process was last
    seen to run, and when it ran again."""

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
        """Of what is told twice, the clock takes each moment once."""
        while self._missed:
            self._tell(*self._missed.popleft())
        seen, now = self._seen, time.monotonic()
        if now - seen >= LEAST_S:
            self._tell(seen, now)
