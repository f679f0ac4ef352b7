"""Marks divide the time without gaps: the time since the previous mark belongs to one phase.

On the host, it is measured at once. On a card, a mark is a CUDA event in the stream: nothing waits for it, and the card
measures the time between two events. The training thread reads them a step or two later, once the card has passed them.
Another thread would disturb the capture of a CUDA graph.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

_TOLERANCE = 1.01  # times the host's measurement, plus some slack: two clocks never quite agree
_SLACK_MS = 10.0


class Takes(Protocol):
    """Something that time is counted for."""

    def add(self, part: str, ms: float, /) -> None: ...


Done = Callable[[Any], object]


class HostTimeline:
    """For CPUs, where a call is done when it returns. The plain twin of CudaTimeline."""

    def __init__(self, began: float, done: Done) -> None:
        """`began`: the first mark, by `time.perf_counter`. `done` is called with each completed phase."""
        self._last = began
        self.done = done

    def mark(self, owner: Takes, part: str, complete: object = None) -> None:
        """Count the time since the last mark as a part of `owner`. `complete` gets no more time after this."""
        now = time.perf_counter()
        owner.add(part, (now - self._last) * 1000)
        self._last = now
        if complete is not None:
            self.done(complete)

    def settle(self, patience_s: float) -> None:
        """Wait until all marks are read, but no longer than this."""


class _Mark(NamedTuple):
    event: Any
    owner: Takes
    part: str
    complete: tuple[object, ...]
    at: float  # when the host recorded it


class CudaTimeline:
    """CUDA events in the current stream of one device."""

    def __init__(self, cuda: Any, device: int, host: HostTimeline, owner: Takes, part: str) -> None:
        """`cuda` is torch.cuda. The time until now, by the host's clock, was a part of `owner`."""
        self._cuda, self._device, self._done = cuda, device, host.done
        self._completing: list[object] = []
        self._marks: deque[_Mark] = deque()
        self._spare: list[Any] = []
        cuda.synchronize(device)  # only once: here, the host's time and the card's are the same
        host.mark(owner, part)
        self._reached = self._record(owner, part)
        self._seen = self._reached.at  # when the host saw it

    def mark(self, owner: Takes, part: str, complete: object = None) -> None:
        if complete is not None:
            self._completing.append(complete)
        if self._cuda.is_current_stream_capturing():
            return  # captured work does not run now: the next mark takes the time
        self._marks.append(self._record(owner, part))
        if complete is not None:
            self._read()

    def settle(self, patience_s: float) -> None:
        deadline = time.perf_counter() + patience_s
        while self._marks and time.perf_counter() < deadline:
            self._read()
            time.sleep(0.001 if self._marks else 0)

    def _read(self) -> None:
        """Read all marks that the card has passed."""
        while self._marks and self._marks[0].event.query():
            mark, before = self._marks.popleft(), self._reached
            now = time.perf_counter()
            mark.owner.add(mark.part, self._credible(before.event.elapsed_time(mark.event), now))
            self._spare.append(before.event)
            self._reached, self._seen = mark, now
            for phase in mark.complete:
                self._done(phase)

    def _credible(self, ms: float, now: float) -> float:
        """The card's time, or the host's if that is implausible: the timer may restart, or count a laptop's sleep."""
        if 0.0 <= ms <= _TOLERANCE * (now - self._reached.at) * 1000 + _SLACK_MS:
            return ms
        return max(0.0, now - max(self._seen, self._reached.at)) * 1000

    def _record(self, owner: Takes, part: str) -> _Mark:
        event = self._spare.pop() if self._spare else self._cuda.Event(enable_timing=True)
        event.record(self._cuda.current_stream(self._device))
        complete, self._completing = tuple(self._completing), []
        return _Mark(event, owner, part, complete, time.perf_counter())
