"""Reads logs: as users do, by the detector alone, or by one format's reader, plainly or in bulk."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from typing import Any

from nanopace.run import Run
from nanopace.sources.build import RunBuilder
from nanopace.sources.detect import Detector
from nanopace.sources.log_format import LogFormat
from nanopace.sources.readers import LineReader
from nanopace.sources.runs import open_runs
from nanopace.sources.text import lines

Feed = Callable[[LineReader, Iterable[bytes]], None]


def detected(lines: Iterable[str]) -> str | None:
    """The name of their format; None if it is unknown."""
    detector = Detector()
    detector.look_at_lines(lines)
    return detector.format and detector.format.name


def plain(reader: LineReader, chunks: Iterable[bytes]) -> None:
    for line, ended in lines(chunks):
        (reader.feed if ended else reader.feed_cut)(line)
    reader.finish()


def runs_of(format: LogFormat, feed: Feed, text: str, chunk: int = 1 << 20) -> list[Run]:
    data, builder = text.encode("utf-8", "surrogatepass"), RunBuilder("log")
    feed(format.open_reader(builder), [data[at : at + chunk] for at in range(0, len(data), chunk)])
    return builder.finish()


def read(log: str | bytes, **options: Any) -> list[Run]:
    """The runs in a log."""
    return open_runs(io.BytesIO(log.encode() if isinstance(log, str) else log), **options)


def read_one(log: str | bytes, **options: Any) -> Run:
    """The only run in a log."""
    (run,) = read(log, **options)
    return run


def fed(format: LogFormat, lines: Iterable[str], name: str = "log") -> list[Run]:
    """The runs in lines that are passed to a reader one by one."""
    builder = RunBuilder(name)
    reader = format.open_reader(builder)
    for line in lines:
        reader.feed(line)
    reader.finish()
    return builder.finish()
