"""Copies between the host's memory and the card's, in both directions at once and next to the computing.

Each direction is a lane: a CUDA stream whose copies follow one another. Nothing here waits on the host. The stream that
computes waits where it needs a copy, and the run's clock counts that time as `bus`. Whoever copies something keeps it
until the stream that computes has waited for the copy. On a CPU, where both memories are one, a copy is done when the
call returns: the plain twin.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import torch
from torch import Tensor

from nanopace.train.clock.clock import Clock
from nanopace.train.private_torch import spin

PHASE = "bus"
Copies = Sequence[tuple[Tensor, Tensor]]  # from, to
Done = torch.cuda.Event | None  # when something on the card is done; None: it is


class Bus:
    def __init__(self, device: torch.device, clock: Clock | None = None) -> None:
        self.device, self._clock = device, clock
        self._phase, self._iteration = "", 0
        kind = _CudaLane if device.type == "cuda" else _Lane
        self._up, self._down = kind(device), kind(device)

    @property
    def moved(self) -> tuple[int, int]:
        """The bytes copied so far, to the card and to the host."""
        return self._up.moved, self._down.moved

    def slow_down(self, bytes_per_s: float | None) -> None:
        """Let each copy take at least as long as with this rate in its direction, for benches: as if the card were in
        an older slot. None: as fast as it is."""
        self._up.bytes_per_s = self._down.bytes_per_s = bytes_per_s
        if bytes_per_s is not None and self.device.type == "cuda":
            spin(0.0, self.device)  # measures the card's clock now, not between two copies

    def during(self, phase: str, iteration: int) -> None:
        """What the card computes now, when it does not wait; '' if nobody measures it."""
        self._phase, self._iteration = phase, iteration

    def load(self, copies: Copies, *after: Done) -> Done:
        """Copy to the card."""
        return self._counted(self._up, copies, after)

    def store(self, copies: Copies, *after: Done) -> Done:
        """Copy to the host."""
        return self._counted(self._down, copies, after)

    def now(self) -> Done:
        """When everything is done that was launched so far."""
        if self.device.type != "cuda":
            return None
        event = torch.cuda.Event()
        event.record(torch.cuda.current_stream(self.device))
        return event

    def wait(self, done: Done) -> None:
        """Let the card wait for a copy."""
        if done is not None:
            self._mark(self._phase)
            torch.cuda.current_stream(self.device).wait_event(done)
            self._mark(PHASE)

    def _counted(self, lane: _Lane, copies: Copies, after: Sequence[Done]) -> Done:
        if self.device.type == "cuda":
            return lane.copy(copies, after)
        self._mark(self._phase)
        lane.copy(copies, after)
        self._mark(PHASE)
        return None

    def _mark(self, phase: str) -> None:
        if self._clock is not None and self._phase:
            self._clock.mark(phase, self._iteration)


class _Lane:
    """One direction, where both memories are one."""

    def __init__(self, device: torch.device) -> None:
        self._device, self.moved = device, 0
        self.bytes_per_s: float | None = None

    def copy(self, copies: Copies, after: Sequence[Done]) -> Done:
        assert not any(after)
        begin, size = time.monotonic(), self._count(copies)
        for source, target in copies:
            target.copy_(source)
        if self.bytes_per_s is not None:
            time.sleep(max(0.0, size / self.bytes_per_s - (time.monotonic() - begin)))
        return None

    def _count(self, copies: Copies) -> int:
        size = sum(target.numel() * target.element_size() for _, target in copies)
        self.moved += size
        return size


class _CudaLane(_Lane):
    """A stream. A second one only spins, for as long as the copies next to it should take."""

    def __init__(self, device: torch.device) -> None:
        super().__init__(device)
        self._stream, self._spinning = (torch.cuda.Stream(device) for _ in range(2))

    def copy(self, copies: Copies, after: Sequence[Done]) -> Done:
        size, done = self._count(copies), torch.cuda.Event()
        with torch.cuda.stream(self._stream):
            for each in filter(None, after):
                self._stream.wait_event(each)
            if self.bytes_per_s is not None:
                self._spinning.wait_stream(self._stream)
                with torch.cuda.stream(self._spinning):
                    spin(size / self.bytes_per_s, self._device)
            for source, target in copies:
                target.copy_(source, non_blocking=True)
            if self.bytes_per_s is not None:
                self._stream.wait_stream(self._spinning)
            done.record(self._stream)
        return done
