"""Sends a finished run to a tracker: a nanoGPT log becomes a TensorBoard run, for example."""

from __future__ import annotations

import math
from collections.abc import Sequence

from nanopace.export.points import Point
from nanopace.trackers.tracker import Heading, Tracker


def send(points: Sequence[Point], tracker: Tracker, heading: Heading) -> str | None:
    """Send all points, and return the tracker's message. Logs seldom have a date, so times count from 1970."""
    said = tracker.open(heading)
    for point in points:
        figures = {
            ("val/" + point.metric): point.val,
            "train/loss": point.train,
            "train/step_loss": point.loss,
            "time/step_ms": point.ms if point.kind == "row" else None,
            "mfu": None if point.mfu is None else 100 * point.mfu,
        }
        known = {name: value for name, value in figures.items() if value is not None and math.isfinite(value)}
        if known:
            tracker.log(point.iteration, known, point.seconds or 0.0)
    tracker.close()
    return said
