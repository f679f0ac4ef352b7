"""Passes lines to the detector, and a text to a format's reader, plainly or in bulk, in pieces like a file."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from nanopace.run import Run
from nanopace.sources.build import RunBuilder
from nanopace.sources.detect import Detector
from nanopace.sources.log_format import LogFormat
from nanopace.sources.readers import LineReader
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
    data, builder = text.encode("utf-8", "surrogatepass"), RunBuilder("run.log")
    feed(format.open_reader(builder), [data[at : at + chunk] for at in range(0, len(data), chunk)])
    return builder.finish()
