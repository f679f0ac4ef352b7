"""Where the time goes: every moment of a run belongs to exactly one phase.

The loop says `mark("data")` when the data is there: what passed since the mark before was data. Marks cut the time into
pieces without gaps, so that the phases sum to the wall clock by construction.

On CUDA a mark is an event in the stream: it costs microseconds, and nobody waits for it. The time between two events is
the card's own, so a phase costs what the card did or waited in it, and nothing where the host was ahead anyway. Marks
are read once the card has passed them (`settled`), a step or two later.
"""

from __future__ import annotations

import os
import time
from collections import deque
from dataclasses import dataclass
from typing import Protocol

import torch

PROCESS = "Python, torch and the device"  # the first part of every start


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of time and whose it was."""

    phase: str
    iteration: int
    ms: float
    what: str = ""  # which part of start-up, or what was compiled


class Moment(Protocol):
    """A point in time that may not have come yet."""

    def passed(self) -> bool: ...

    def wait(self) -> None: ...


class Clock:
    """The host's clock: for CPUs, where what was called is done when it returns, and the plain twin of CudaClock."""

    def __init__(self, started: float) -> None:
        """`started`: when the process began, on the monotonic clock."""
        self._last = started
        self._pieces: deque[Piece] = deque()
        self.totals: dict[str, float] = {}  # ms by phase, of everything that is settled

    def mark(self, phase: str, iteration: int, what: str = "") -> Moment:
        """What passed since the last mark was `phase`."""
        now = time.monotonic()
        self._settle(Piece(phase, iteration, (now - self._last) * 1000, what))
        self._last = now
        return PAST

    def settled(self) -> list[Piece]:
        """The pieces that ended since this was last asked, in their order."""
        pieces = list(self._pieces)
        self._pieces.clear()
        return pieces

    def finish(self) -> None:
        """Wait until every mark has passed."""

    def shares(self) -> dict[str, float]:
        """Of what is settled, by phase; they sum to 1."""
        whole = sum(self.totals.values())
        return {phase: ms / whole for phase, ms in self.totals.items()} if whole > 0 else {}

    def _settle(self, piece: Piece) -> None:
        self._pieces.append(piece)
        self.totals[piece.phase] = self.totals.get(piece.phase, 0.0) + piece.ms


class CudaClock(Clock):
    """Events in the current stream. Until the first of them the host's clock counts."""

    def __init__(self, started: float, device: torch.device) -> None:
        super().__init__(started)
        torch.cuda.synchronize(device)  # the host's clock and the card's meet here
        super().mark("startup", 0, PROCESS)
        self._device = device
        self._reached = self._event()
        self._marks: deque[tuple[str, int, str, torch.cuda.Event]] = deque()

    def mark(self, phase: str, iteration: int, what: str = "") -> Moment:
        event = self._event()
        self._marks.append((phase, iteration, what, event))
        return CudaMoment(event)

    def settled(self) -> list[Piece]:
        while self._marks and self._marks[0][-1].query():
            phase, iteration, what, event = self._marks.popleft()
            self._settle(Piece(phase, iteration, self._reached.elapsed_time(event), what))
            self._reached = event
        return super().settled()

    def finish(self) -> None:
        if self._marks:
            self._marks[-1][-1].synchronize()

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
    """A moment that has come."""

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


def process_start() -> float:
    """When this process began, on the monotonic clock: Python's own start and the imports are part of a run."""
    now = time.monotonic()
    try:
        with open("/proc/self/stat", "rb") as file:
            ticks = int(file.read().rpartition(b")")[2].split()[19])  # the name before it may hold spaces and brackets
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):
        return now  # no Linux: what came before the first import of ours stays unknown
    return now - max(0.0, age)
