"""Trackio, which stores its runs on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from nanopace.trackers.tracker import Heading


class ToTrackio:
    def __init__(self) -> None:
        self._trackio: Any = import_module("trackio")

    def open(self, heading: Heading) -> str | None:
        sensors = {"auto_log_gpu": False, "auto_log_cpu": False}  # the ledger has the card's sensors
        self._trackio.init(project=heading.project, name=heading.name, config=dict(heading.config), **sensors)
        return None  # it prints where to look

    def log(self, step: int, figures: Mapping[str, float], at_s: float | None) -> None:  # noqa: ARG002, it has no clock
        self._trackio.log(dict(figures), step=step)

    def close(self) -> None:
        self._trackio.finish()
