"""Turns the clock's pieces into ledger events.

A step's pieces become one `step` event, an evaluation's go into its `eval` event, a checkpoint's into its `checkpoint`
event. The rest, and the parts of a step, are collected and written as `span` events once a second, so that they do not
swamp the ledger of a run with steps of a millisecond.
"""

from __future__ import annotations

import time
from collections import defaultdict

from nanopace.ledger import CompileEvent, LedgerWriter, SpanEvent, StallEvent
from nanopace.train.clock.clock import SUSPEND, Clock, Piece

STEP_PHASES = ("data", "step", "optimizer", "bus")  # bus: waiting for the host's memory
ALONE = "before the ranks meet"  # the part of a step in which a rank does not wait for others
LAST_SAVE = "waiting for the last one"  # training is over, only the disk is still busy: not a stall
_SPANS_EVERY = 1.0  # seconds


class Bookkeeper:
    """Takes every piece of time once and adds it to the event it belongs to."""

    def __init__(self, clock: Clock, ledger: LedgerWriter) -> None:
        self._clock, self._ledger = clock, ledger
        self._step_ms: defaultdict[int, float] = defaultdict(float)
        self._own_ms: defaultdict[int, float] = defaultdict(float)
        self._checkpoint_ms: defaultdict[int, float] = defaultdict(float)
        self._evaluation_ms: defaultdict[int, float] = defaultdict(float)
        self._spans: defaultdict[str, float] = defaultdict(float)
        self._iteration = 0
        self._spans_written = time.monotonic()

    def drain_clock(self) -> None:
        """Take the clock's completed pieces."""
        for piece in self._clock.completed_pieces():
            self._take(piece)
        if time.monotonic() - self._spans_written >= _SPANS_EVERY:
            self.write_spans()

    def step_ms(self, iteration: int) -> float:
        return self._step_ms.pop(iteration)

    def own_ms(self, iteration: int) -> float:
        """This rank's part of a step before it waits for the others; 0 with one rank, where it is not marked."""
        return self._own_ms.pop(iteration, 0.0)

    def evaluation_ms(self, iteration: int) -> float:
        return self._evaluation_ms.pop(iteration, 0.0)

    def checkpoint_ms(self, iteration: int) -> float:
        return self._checkpoint_ms.pop(iteration, 0.0)

    def write_spans(self) -> None:
        for phase, ms in filter(lambda item: item[1] > 0, self._spans.items()):
            self._ledger.append(SpanEvent(phase, self._iteration, round(ms, 4)))
        self._spans.clear()
        self._spans_written = time.monotonic()

    def close(self) -> None:
        """Write time that belongs to no event, such as waiting for a failed checkpoint: the wall clock includes it."""
        self.drain_clock()
        self._spans["evaluation"] += sum(self._evaluation_ms.values())
        self._spans["checkpoint"] += sum(self._checkpoint_ms.values())
        self._spans["other"] += sum(self._step_ms.values())
        self.write_spans()

    def _take(self, piece: Piece) -> None:
        self._iteration = max(self._iteration, piece.iteration)
        if piece.phase in STEP_PHASES:
            self._step_ms[piece.iteration] += piece.ms
            self._spans[piece.phase] += piece.ms
            if piece.what == ALONE:
                self._own_ms[piece.iteration] += piece.ms
        elif piece.phase == "evaluation":
            self._evaluation_ms[piece.iteration] += piece.ms
        elif piece.phase == "checkpoint":
            self._checkpoint_ms[piece.iteration] += piece.ms
        elif piece.phase == "compile":
            self._ledger.append(CompileEvent(round(piece.ms, 3), piece.what, piece.iteration))
        elif piece.phase == LAST_SAVE:
            self._ledger.append(SpanEvent("checkpoint", piece.iteration, round(piece.ms, 3), what=LAST_SAVE))
        elif piece.phase == SUSPEND:
            self._ledger.append(StallEvent(piece.iteration, round(piece.ms, 3), SUSPEND))
        elif piece.phase == "startup":
            self._ledger.append(SpanEvent("startup", piece.iteration, round(piece.ms, 3), what=piece.what))
        else:
            self._spans[piece.phase] += piece.ms
