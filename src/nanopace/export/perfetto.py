"""A run as a trace for Perfetto and Chrome: what the wall clock was spent on, along with the loss.

https://ui.perfetto.dev and chrome://tracing open this JSON (trace event format).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence

from nanopace.export.points import Point

_TRACK = 1


def to_perfetto(name: str, points: Sequence[Point]) -> bytes:
    """The time from row to row as slices, which contain what made a row slow; losses as counters. Points without a time
    are left out."""
    events = [_named("process_name", name), _named("thread_name", "iterations")]
    last = Point("row", -1, 0.0)
    for point in points:
        if point.seconds is None:
            continue
        if point.kind == "row":
            events += _slices(last, point)
            last = point
        events += _counters(point)
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}, allow_nan=False).encode()


def _slices(last: Point, row: Point) -> Iterator[dict[str, object]]:
    begin_us, end_us = 1e6 * (last.seconds or 0.0), 1e6 * (row.seconds or 0.0)
    first = last.iteration + 1
    name = f"iteration {row.iteration}" if first >= row.iteration else f"iterations {first} to {row.iteration}"
    yield _slice(name, begin_us, end_us, {"printed ms": row.ms, "loss": _finite(row.loss)})
    if row.slow_ms is not None:
        slow_us = min(1000 * row.slow_ms, end_us - begin_us)
        step_us = min(1000 * (row.ms or 0.0), end_us - begin_us) - slow_us  # the step comes after what it waited for
        end_us -= max(0.0, step_us)
        yield _slice(row.slow, end_us - slow_us, end_us, {})


def _slice(name: str, begin_us: float, end_us: float, about: Mapping[str, float | None]) -> dict[str, object]:
    known = {key: value for key, value in about.items() if value is not None}
    length = max(0.0, end_us - begin_us)
    return {"ph": "X", "pid": 1, "tid": _TRACK, "name": name, "ts": begin_us, "dur": length, "args": known}


def _counters(point: Point) -> Iterator[dict[str, object]]:
    for name, value in (("training loss", _finite(point.loss)), ("validation loss", _finite(point.val))):
        if value is not None:
            at = 1e6 * (point.seconds or 0.0)
            yield {"ph": "C", "pid": 1, "name": name, "ts": at, "args": {"loss": value}}


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _named(kind: str, name: str) -> dict[str, object]:
    return {"ph": "M", "pid": 1, "tid": _TRACK, "name": kind, "args": {"name": name}}
