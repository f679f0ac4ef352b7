"""Accounts for a run's time: every moment belongs to exactly one phase.

The loop calls `mark("data")` when the data has arrived: the time since the previous mark was data. Marks cut the time
into pieces without gaps, so the phases sum to the wall clock by construction.

On CUDA a mark is an event in the stream: it takes microseconds and waits for nothing. The time between two events is
measured on the card, so a phase costs what the card did or waited in it, and nothing if the host was ahead anyway.
Marks are read after the card has passed them (`completed_pieces`), a step or two later.

While a laptop sleeps or the process is stopped, by Ctrl-Z (`paused`) or by a signal (`stopped`), the phase is SUSPEND,
so no step gets longer. Whatever the clocks report, no piece is negative or longer than what the host's clock allows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch

from nanopace.host_clock import WallClock

PROCESS = "Python, torch and the device"  # the first part of every start-up
SUSPEND = "suspend"  # the phase in which nothing could run
_TOLERANCE = 1.01  # times the host's time, plus some slack: two clocks never agree exactly
_SLACK_MS = 10.0


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of time and its phase."""

    phase: str
    iteration: int
    ms: float
    what: str = ""  # which part of start-up, or what was compiled


class Moment(Protocol):
    """A point in time that may still be ahead."""

    def passed(self) -> bool: ...

    def wait(self) -> None: ...


class Clock:
    """The host's clock, for CPUs, where work is done when a call returns. The plain twin of CudaClock."""

    def __init__(self, started: float, wall: WallClock | None = None) -> None:
        """`started` is when the process began, on the monotonic clock."""
        self._wall = wall or WallClock()
        self._last = started
        self._slept_counted = 0.0  # seconds of sleep already in pieces
        self._stopped, self._stopped_counted = 0.0, 0.0  # seconds stopped so far, and already in pieces
        self._ran = started  # when this process was last seen running: no stop began before that
        self._pieces: deque[Piece] = deque()
        self.totals: dict[str, float] = {}  # ms by phase, over all completed pieces

    def now(self) -> float:
        """Seconds on the scale of `started`, including sleep."""
        return self._wall.read().wall

    def mark(self, phase: str, iteration: int, what: str = "") -> Moment:
        """Count the time since the last mark as `phase`."""
        awake = self._awake()
        self._add(Piece(phase, iteration, max(0.0, awake - self._last) * 1000, what))
        self._last = awake
        self._account_for_suspension(iteration, self._stopped)
        return PAST

    @contextmanager
    def paused(self) -> Iterator[None]:
        """The process is stopped inside this block; the time counts as a suspension."""
        begin = self._ran = self._wall.read().awake
        try:
            yield
        finally:
            self.stopped(begin, self._wall.read().awake)

    def stopped(self, seen: float, again: float) -> None:
        """Count a stop between two moments of the monotonic clock: last seen running, and running again. Safe to call
        from a signal handler."""
        self._stopped += max(0.0, again - max(seen, self._ran))
        self._ran = max(self._ran, again)

    def completed_pieces(self) -> list[Piece]:
        """The pieces that ended since the last call, in order."""
        pieces = list(self._pieces)
        self._pieces.clear()
        return pieces

    def finish(self) -> None:
        """Wait until the device has passed every mark."""

    def shares(self) -> dict[str, float]:
        """Each phase's share of the completed pieces; they sum to 1."""
        total = sum(self.totals.values())
        return {phase: ms / total for phase, ms in self.totals.items()} if total > 0 else {}

    def _awake(self) -> float:
        """The host's time without sleep and stops. Loops, because a stop may fall between the two reads."""
        while True:
            stopped, awake = self._stopped, self._wall.read().awake
            if stopped == self._stopped:
                self._ran = max(self._ran, awake)
                return awake - stopped

    def _account_for_suspension(self, iteration: int, stopped: float) -> None:
        """Add sleep and stops since the last call as one piece. `stopped` is the total in seconds so far."""
        slept = self._wall.read().slept
        suspended = (slept - self._slept_counted) + (stopped - self._stopped_counted)
        self._slept_counted, self._stopped_counted = slept, stopped
        if suspended > 0:
            self._add(Piece(SUSPEND, iteration, suspended * 1000))

    def _add(self, piece: Piece) -> None:
        self._pieces.append(piece)
        self.totals[piece.phase] = self.totals.get(piece.phase, 0.0) + piece.ms


class _Mark(NamedTuple):
    phase: str
    iteration: int
    what: str
    event: torch.cuda.Event
    awake: float  # when the host recorded it
    stopped: float  # total seconds stopped by then


class CudaClock(Clock):
    """Uses events in the current stream. Before the first one, the host's clock counts."""

    def __init__(self, started: float, device: torch.device, wall: WallClock | None = None) -> None:
        super().__init__(started, wall)
        self._device = device
        self._drain()  # from here, the host's and the card's time run together
        super().mark("startup", 0, PROCESS)
        self._marks: deque[_Mark] = deque()
        self._reached = self._mark("", 0)
        self._seen = self._reached.awake  # when the host saw it

    def mark(self, phase: str, iteration: int, what: str = "") -> Moment:
        made = self._mark(phase, iteration, what)
        self._marks.append(made)
        return CudaMoment(made.event)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Let the card finish first, so that it is idle while the host is stopped."""
        self._drain()
        with super().paused():
            yield

    def completed_pieces(self) -> list[Piece]:
        while self._marks and self._marks[0].event.query():
            mark = self._marks.popleft()
            seen = self._awake()
            ms = self._reached.event.elapsed_time(mark.event) - (mark.stopped - self._reached.stopped) * 1000
            self._add(Piece(mark.phase, mark.iteration, self._credible(ms, seen), mark.what))
            self._reached, self._seen = mark, seen
            self._account_for_suspension(mark.iteration, mark.stopped)
        return super().completed_pieces()

    def finish(self) -> None:
        if self._marks:
            self._marks[-1].event.synchronize()

    def _credible(self, ms: float, seen: float) -> float:
        """`ms` if possible, else the host's own time: a card's timer may restart or count a laptop's sleep. The last
        mark cannot be earlier than when the host recorded it, nor this one later than when the host saw it."""
        most = (seen - self._reached.awake) * 1000
        if 0.0 <= ms <= _TOLERANCE * most + _SLACK_MS:
            return ms
        return max(0.0, seen - max(self._seen, self._reached.awake)) * 1000

    def _drain(self) -> None:
        torch.cuda.synchronize(self._device)

    def _mark(self, phase: str, iteration: int, what: str = "") -> _Mark:
        return _Mark(phase, iteration, what, self._event(), self._awake(), self._stopped)

    def _event(self) -> torch.cuda.Event:
        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self._device))
        return event


@dataclass(frozen=True, slots=True)
class CudaMoment:
    event: torch.cuda.Event

    def passed(self) -> bool:
        return bool(self.event.query())

    def wait(self) -> None:
        self.event.synchronize()


class _Past:
    """A moment in the past."""

    def passed(self) -> bool:
        return True

    def wait(self) -> None:
        pass


PAST = _Past()


def make_clock(device: torch.device, started: float) -> Clock:
    if device.type == "cuda":
        return CudaClock(started, device)
    clock = Clock(started)
    clock.mark("startup", 0, PROCESS)
    return clock
