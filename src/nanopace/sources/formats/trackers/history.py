"""What a tracker recorded, and the run this represents.

A record is what was logged together: some series have a value in it, and it may have a time. Only series that may
matter are kept; of the others, only the names.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping, Sequence

from nanopace.errors import NotALog
from nanopace.run import Metric
from nanopace.sources.build import RunBuilder
from nanopace.sources.formats.trackers.late_runtimes import in_time
from nanopace.sources.formats.trackers.names import (
    RATES,
    RUNTIMES,
    find_steps,
    find_train,
    find_validation,
    is_bits_per_byte,
    is_wanted,
    listed,
    shortened,
)
from nanopace.sources.running_clock import MOST_STEPS, RunningClock

_MOST_NAMES = 1000
_MOST_S = 1e9
_LEAST_S = 0.001  # the least that a step takes


class History:
    """The records so far."""

    def __init__(self) -> None:
        self.names: dict[str, bool] = {}  # whether a series is kept
        self._times = array("d")  # of each record; nan if unknown
        self._stamps = array("d")  # the same, by W&B's other clock
        self._records: dict[str, array[int]] = {}
        self._values: dict[str, array[float]] = {}

    def add(self, at_s: float | None, values: Mapping[str, float | None]) -> None:
        record = len(self._times)
        stamp_s = values.get("_timestamp")
        self._times.append(math.nan if at_s is None else at_s)
        self._stamps.append(math.nan if stamp_s is None else stamp_s)
        for name, value in values.items():
            if name not in self.names and len(self.names) < _MOST_NAMES:
                self.names[name] = is_wanted(name)
            if value is not None and self.names.get(name):
                self._records.setdefault(name, array("q")).append(record)
                self._values.setdefault(name, array("d")).append(value)

    def tell(self, builder: RunBuilder, starts_s: float | None) -> None:
        """Pass rows and evaluations to the builder, in the order of their times. `starts_s`: when training began."""
        if not self._times:
            return  # nothing has been logged yet
        self._times = in_time(self._times, self._stamps)
        points = {name: len(values) for name, values in self._values.items()}
        train, validation = find_train(points), find_validation(points)
        steps = None if train is None else find_steps(points, train)
        step_of = {record: step for record, step in self._column(steps).items() if 0 <= step < MOST_STEPS}
        losses = {record: loss for record, loss in self._column(train).items() if record in step_of}
        if train is None or not losses:
            raise NotALog(
                "{path}: none of its series is certain to be the training loss per step; it has {names}",
                path=builder.name,
                names=listed(self.names) or "none",
            )
        evaluated = self._column(validation)
        runtimes, runtime = self._first_of(RUNTIMES), {}
        for record, seconds in runtimes.items():
            if 0 <= seconds < _MOST_S and record in step_of:
                runtime[int(step_of[record])] = 1000 * seconds
        if self._is_written_later([*losses], step_of):
            self._times = array("d", [math.nan]) * len(self._times)
        resolution_s = self._resolution_s()
        if resolution_s:
            builder.caveat("whole_seconds")
        order = sorted({*losses, *evaluated}, key=lambda record: (self._times[record], record))
        first_s = min((self._times[record] for record in order), default=0.0)
        if starts_s is None or math.isnan(first_s) or starts_s > first_s:  # the file was written later
            starts_s = None
        zero_s = first_s if starts_s is None else starts_s
        clock = RunningClock(builder, resolution_s=resolution_s, starts_s=None if starts_s is None else 0.0)
        metric: Metric = "bpb" if validation is not None and is_bits_per_byte(validation) else "loss"
        chosen = {"train": shortened(train), "validation": validation and shortened(validation)}
        builder.caveat("tracked_series", **chosen)
        step = 0
        for record in order:
            step = int(step_of.get(record, step))  # an evaluation may be logged without a step
            at_s, ms = self._times[record] - zero_s, runtime.get(step)
            if math.isnan(at_s):
                if record in losses:
                    builder.untimed_row(step, losses[record])
                if record in evaluated:
                    builder.evaluation(step, None, evaluated[record], ms=ms, metric=metric)
                continue
            if record in losses:
                clock.row(step, at_s, losses[record])
            if record in evaluated:
                clock.evaluation(step, evaluated[record], at_s=at_s, ms=ms, metric=metric)
        clock.flush()
        for record, rate in self._first_of(RATES).items():
            if record in step_of:
                builder.rate(int(step_of[record]), rate)
        builder.caveat("tracked_series", **chosen)  # for the last run, if there are several

    def _column(self, name: str | None) -> dict[int, float]:
        """The values of a series, by record."""
        return {} if name is None else dict(zip(self._records[name], self._values[name], strict=True))

    def _first_of(self, names: Sequence[str]) -> dict[int, float]:
        """The first of these series that there is."""
        return self._column(next((name for name in names if name in self._values), None))

    def _is_written_later(self, records: list[int], step_of: Mapping[int, float]) -> bool:
        """Whether the points were written faster than anyone trains, after the fact: their times mean nothing."""
        first, last = records[0], records[-1]
        steps = step_of.get(last, 0.0) - step_of.get(first, 0.0)
        return steps > 0 and self._times[last] - self._times[first] < _LEAST_S * steps

    def _resolution_s(self) -> float:
        """The resolution of the times: 1 for whole seconds, 0 for fractions or no times."""
        times = [at_s for at_s in self._times if not math.isnan(at_s)]
        return 1.0 if times and all(at_s.is_integer() for at_s in times) else 0.0
