"""TensorBoard's event files, written by TensorBoard's library, without torch."""

from __future__ import annotations

import time
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from nanopace.errors import Message
from nanopace.trackers.tracker import Heading

_FLUSH_S = 10  # what a kill may lose; the library's default is two minutes


class ToTensorBoard:
    def __init__(self) -> None:
        self._writer: Any = None
        self._event: Any = import_module("tensorboard.compat.proto.event_pb2").Event
        self._summary: Any = import_module("tensorboard.compat.proto.summary_pb2").Summary

    def open(self, heading: Heading) -> str | None:
        files = import_module("tensorboard.summary.writer.event_file_writer")
        self._writer = files.EventFileWriter(str(heading.directory), flush_secs=_FLUSH_S)
        return Message("to see the figures: tensorboard --logdir {directory}", directory=heading.directory)

    def log(self, step: int, figures: Mapping[str, float], at_s: float | None) -> None:
        values = [self._summary.Value(tag=tag, simple_value=value) for tag, value in figures.items()]
        at_s = time.time() if at_s is None else at_s
        self._writer.add_event(self._event(wall_time=at_s, step=step, summary=self._summary(value=values)))

    def close(self) -> None:
        self._writer.close()
