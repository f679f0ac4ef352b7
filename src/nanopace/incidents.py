"""What happened to a run and did not end it, as its ledger says; parts of `nanopace.run.Run`."""

from __future__ import annotations

from typing import Literal

from nanopace.record import Record

StallReason = Literal["data", "suspend", "gc", "unknown"]
MemoryPlace = Literal["startup", "step", "evaluation"]


class LossSpike(Record):
    """A step whose loss stands out from those before it."""

    iteration: int
    z: float  # by how many standard deviations
    loss: float | None = None


class MicroBatch(Record):
    """Memory was full, and from here on a step, or an evaluation, is done in smaller pieces."""

    iteration: int
    batch_size: int
    accumulation: int
    where: MemoryPlace
    before: int | None = None  # the batch_size until then


class RankLag(Record):
    """Of several ranks one: in how many steps it was the slowest, and by how much."""

    rank: int
    steps: int
    lag: float | None  # median, over those steps: how much longer than the median of the others' its own work took


class Note(Record):
    """Something that the trainer wanted a person to see."""

    iteration: int
    text: str
