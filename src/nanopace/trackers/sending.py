"""Sends figures to a tracker in a separate thread: if the tracker hangs or fails, training continues."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from queue import Empty, Full, Queue
from threading import Thread

from nanopace.errors import Message
from nanopace.trackers.tracker import Heading, Tracker

MOST_WAITING = 10_000  # steps' figures that may wait; any more are dropped
PATIENCE_S = 30.0  # how long to wait at the end of a run


class Sending:
    """One tracker, opened and fed in the background. `say` is called with messages for the user."""

    def __init__(self, name: str, tracker: Tracker, heading: Heading, say: Callable[[str], None]) -> None:
        self._name, self._tracker, self._heading, self._say = name, tracker, heading, say
        self._waiting: Queue[tuple[int, Mapping[str, float]] | None] = Queue(MOST_WAITING)
        self._left_out = 0
        self._said: Queue[str] = Queue()
        self._thread = Thread(target=self._send_all, name=f"tracker {name}", daemon=True)
        self._thread.start()

    def log(self, step: int, figures: Mapping[str, float]) -> None:
        """Queue the figures. Never waits."""
        self._pass_on()
        if not self._thread.is_alive():
            return
        try:
            self._waiting.put_nowait((step, figures))
        except Full:
            self._left_out += 1

    def finish(self, patience_s: float = PATIENCE_S) -> None:
        """Wait until all figures are sent, or report that some are missing."""
        if self._thread.is_alive():
            try:
                self._waiting.put(None, timeout=patience_s)
            except Full:
                self._left_out += 1
            self._thread.join(patience_s)
        self._pass_on()
        if self._thread.is_alive():
            self._say(
                Message(
                    "{tracker}: still busy after {seconds:.0f} s; its last figures may be missing",
                    tracker=self._name,
                    seconds=patience_s,
                )
            )
        elif self._left_out:
            self._say(
                Message(
                    "{tracker}: too slow to keep up; steps missing there: {count:,}",
                    tracker=self._name,
                    count=self._left_out,
                )
            )

    def _send_all(self) -> None:
        try:
            said = self._tracker.open(self._heading)
            if said:
                self._said.put(said)
            while (each := self._waiting.get()) is not None:
                self._tracker.log(*each, None)
            self._tracker.close()
        except BaseException as error:  # someone else's library: even SystemExit has occurred
            reason = " ".join(str(error).split()) or type(error).__name__
            self._said.put(
                Message("{tracker}: {reason}; training continues without it", tracker=self._name, reason=reason[:200])
            )

    def _pass_on(self) -> None:
        """Report the thread's messages from the training thread: displays expect only that one."""
        while True:
            try:
                self._say(self._said.get_nowait())
            except Empty:
                return
