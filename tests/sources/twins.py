"""A text given to a format's reader, plainly or in bulk, in pieces as a file would come."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from nanopace.run import Run
from nanopace.sources.build import LineReader, RunBuilder
from nanopace.sources.text import lines

Feed = Callable[[LineReader, Iterable[bytes]], None]


def plain(reader: LineReader, chunks: Iterable[bytes]) -> None:
    for line, ended in lines(chunks):
        (reader.feed if ended else reader.feed_cut)(line)
    reader.finish()


def runs_of(reader: Callable[[RunBuilder], LineReader], feed: Feed, text: str, chunk: int = 1 << 20) -> list[Run]:
    data, builder = text.encode("utf-8", "surrogatepass"), RunBuilder("run.log")
    feed(reader(builder), [data[at : at + chunk] for at in range(0, len(data), chunk)])
    return builder.finish()
