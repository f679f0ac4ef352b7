"""A run as a list of rows and evaluations, on the wall clock that the diagnosis reconstructs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from nanopace.diagnosis.curves import eval_seconds
from nanopace.diagnosis.time.rows import SLOW, find_pace
from nanopace.diagnosis.time.slow_rows import break_down_rows
from nanopace.diagnosis.time.wall_time import account
from nanopace.run import Run

Kind = Literal["row", "evaluation"]


class Point(NamedTuple):
    """What the log says about one iteration. None: unknown. The field names are the columns of a table."""

    kind: Kind
    iteration: int
    seconds: float | None  # on the wall clock, at the end of the iteration
    ms: float | None = None  # as printed
    loss: float | None = None
    mfu: float | None = None  # as printed, a fraction
    slow: str = ""  # what made the row slow: "evaluation checkpoint"
    slow_ms: float | None = None  # time it took in addition to its steps
    metric: str = ""  # of an evaluation: loss, bpb, ...
    train: float | None = None
    val: float | None = None


def points(run: Run) -> list[Point]:
    """The points of a run, by time. An evaluation comes before the row of its iteration."""
    found = _on_the_clock(run) if len(run.rows) else _without_times(run)
    return sorted(found, key=lambda point: (point.iteration, point.kind == "row"))


def _on_the_clock(run: Run) -> Iterator[Point]:
    pace = find_pace(run)
    breakdown = break_down_rows(run, pace)
    _, _, clock = account(run, pace, breakdown)
    for index, row in enumerate(run.rows):
        slow = breakdown.parts.get(index, {}) if pace.kind[index] == SLOW else {}
        yield Point(
            *("row", row.last_iteration, clock.row_end_s[index], row.ms, row.loss, row.mfu),
            slow=" ".join(slow),
            slow_ms=sum(slow.values()) if slow else None,
        )
    for each, end_s in zip(run.evaluations, eval_seconds(run, pace, clock, run.evaluations), strict=True):
        yield Point("evaluation", each.iteration, end_s, each.ms, metric=each.metric, train=each.train, val=each.val)


def _without_times(run: Run) -> Iterator[Point]:
    for row in run.untimed_rows:
        yield Point("row", row.last_iteration, None, loss=row.loss)
    for each in run.evaluations:
        yield Point("evaluation", each.iteration, None, each.ms, metric=each.metric, train=each.train, val=each.val)
