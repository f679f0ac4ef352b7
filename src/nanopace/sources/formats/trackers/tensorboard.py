"""Reads TensorBoard's event files with TensorBoard's reader.

Every point of a series has a step and the time at which it was written, so the time of a row is the difference from the
previous point. For the first one, it counts from the start of the file, which the writer creates when it starts.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterable, Iterator
from importlib import import_module

from nanopace.errors import InputError, NotALog
from nanopace.sources.build import RunBuilder
from nanopace.sources.formats.trackers.history import History


class TensorboardReader:
    """The scalars of one file."""

    def __init__(self, builder: RunBuilder) -> None:
        self._builder = builder

    def read(self, chunks: Iterable[bytes]) -> None:
        history, starts_s = History(), None
        with tempfile.NamedTemporaryFile(prefix="nanopace-", suffix=".tfevents") as file:
            for chunk in chunks:
                file.write(chunk)
            file.flush()
            for at_s, step, tag, value in _scalars(file.name, self._builder.name):
                starts_s = at_s if starts_s is None else starts_s
                if tag:
                    history.add(at_s, {tag: value, "_step": float(step)})
        if not history.names:
            raise NotALog(
                "{path}: a TensorBoard event file without any scalars; there is nothing to explain",
                path=self._builder.name,
            )
        history.tell(self._builder, starts_s)


def _scalars(path: str, shown: str) -> Iterator[tuple[float, int, str, float]]:
    """Time, step, tag and value of each scalar; without a tag, only a time. A torn file is read up to the tear."""
    try:
        loader = import_module("tensorboard.backend.event_processing.event_file_loader").EventFileLoader
        make_ndarray = import_module("tensorboard.util.tensor_util").make_ndarray
    except ImportError:
        raise InputError(
            "{path}: reading event files needs TensorBoard's own reader: pip install 'nanopace[tensorboard]'",
            path=shown,
        ) from None
    logging.getLogger("tensorboard").setLevel(logging.CRITICAL)
    try:
        for event in loader(path).Load():
            yield event.wall_time, event.step, "", 0.0
            for value in event.summary.value:
                if value.metadata.plugin_data.plugin_name == "scalars":
                    array = make_ndarray(value.tensor)
                    if array.size == 1:
                        yield event.wall_time, event.step, value.tag, float(array.item())
    except Exception as error:  # its reader has no specific error for invalid events
        raise InputError(
            "{path}: TensorBoard's reader cannot read it: {reason}",
            path=shown,
            reason=" ".join(str(error).split())[:200],
        ) from None
