"""Incidents that did not end a run, as its ledger records them. They are parts of `nanopace.run.Run`."""

from __future__ import annotations

from typing import Literal

from nanopace.record import Record

StallReason = Literal["data", "suspend", "gc", "unknown"]
MemoryPlace = Literal["startup", "step", "evaluation"]


class LossSpike(Record):
    """A step whose loss stands out from the steps before it."""

    iteration: int
    z: float  # how many standard deviations above them
    loss: float | None = None


class MicroBatch(Record):
    """Memory ran out. From here on, steps or evaluations use smaller micro-batches."""

    iteration: int
    batch_size: int
    accumulation: int
    where: MemoryPlace
    before: int | None = None  # the batch_size until now


class RankLag(Record):
    """One of several ranks: in how many steps it was the slowest, and by how much."""

    rank: int
    steps: int
    lag: float | None  # median over those steps: how much longer its work took than the others' median


class Note(Record):
    """A message from the trainer to the user."""

    iteration: int
    text: str
