"""From a log, wherever it is and whoever wrote it, to Runs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path

from nanopace.errors import InputError, NotALog
from nanopace.run import FactValue, Run
from nanopace.sources.build import LineReader, RunBuilder
from nanopace.sources.detect import SNIFF_BYTES, detect, reader_for
from nanopace.sources.infer import complete
from nanopace.sources.opening import Progress, Source, find_logs, open_log
from nanopace.sources.text import CHUNK, lines, looks_binary, width_of

__all__ = ["find_logs", "open_runs"]

BULK_BYTES = 16 * CHUNK  # from here on numpy is worth its import, and rows are folded
_PREAMBLE = 4  # chunks of other things that may come before the first line of a trainer
FORMATS = "nanoGPT, nanochat, nanopace"


def open_runs(
    source: Source,
    *,
    config: str | Path | None = None,
    overrides: Mapping[str, FactValue] | None = None,
    gpu: str | None = None,
    progress: Progress | None = None,
) -> list[Run]:
    """All runs in a log: a path, "-" for standard input, a binary file, or a directory, which stands for its logs.

    `config` is a nanoGPT config file, `overrides` and `gpu` are facts that a person adds. `progress` is called with
    the bytes read and, where it is known, their total.
    """
    knobs = None
    if config is not None:
        from nanopace.config_text import read_config

        knobs = read_config(config)
    if isinstance(source, (str, Path)) and str(source) != "-" and os.path.isdir(source):
        runs = _read_all(Path(source), progress)
    else:
        runs = _read(source, progress)
    return [complete(run, knobs, overrides, gpu) for run in runs]


def _read_all(directory: Path, progress: Progress | None) -> list[Run]:
    runs: list[Run] = []
    for log in find_logs(directory):
        with suppress(InputError):  # looked like one from its beginning
            runs += _read(log, progress)
    if not runs:
        raise NotALog(
            "{path}: no training log in this directory; known are the logs of {formats}",
            path=directory,
            formats=FORMATS,
        )
    return runs


def _read(source: Source, progress: Progress | None) -> list[Run]:
    with open_log(source, progress) as log:
        head = list(islice(log.chunks, BULK_BYTES // CHUNK))
        builder = RunBuilder(log.name)
        reader = _reader(head, builder, source)
        more = next(log.chunks, None)
        if more is None:
            _feed(reader, head)
        else:
            chunks = chain(_consumed(head), (more,), log.chunks)
            if reader.format == "nanogpt":
                from nanopace.sources.bulk import feed_bulk

                feed_bulk(reader, chunks)
            else:
                _feed(reader, chunks)
    runs = builder.finish()
    if not runs:
        raise _no_rows(source, builder)
    return runs


def _feed(reader: LineReader, chunks: Iterable[bytes]) -> None:
    for line, ended in lines(chunks):
        (reader.feed if ended else reader.feed_cut)(line)
    reader.finish()


def _consumed(chunks: list[bytes]) -> Iterator[bytes]:
    """The chunks, each let go when it is done with."""
    chunks.reverse()
    while chunks:
        yield chunks.pop()


def _reader(head: list[bytes], builder: RunBuilder, source: Source) -> LineReader:
    """For the format of the log's beginning. A long preamble of other things may come before it."""
    if not any(head):
        raise NotALog("{path}: is empty; known are the logs of {formats}", path=_said(source), formats=FORMATS)
    sniffed = [line for line, _ in lines([head[0][:SNIFF_BYTES]])]
    format = detect(sniffed)
    if format is None:
        if looks_binary(head[0][:SNIFF_BYTES]):
            raise NotALog(
                "{path}: a binary file, not a training log; known are the logs of {formats}",
                path=_said(source),
                formats=FORMATS,
            )
        format = detect(line for line, _ in lines(head[:_PREAMBLE]))
    if format is None:
        raise NotALog(
            "{path}: text, but no training log in it; known are the logs of {formats}",
            path=_said(source),
            formats=FORMATS,
        )
    return reader_for(format, builder, width_of(sniffed))


def _no_rows(source: Source, builder: RunBuilder) -> NotALog:
    if builder.evaluations_seen:
        return NotALog(
            "{path}: {count} evaluations, but no row with a time; there is nothing to explain",
            path=_said(source),
            count=builder.evaluations_seen,
        )
    return NotALog("{path}: the beginning of a training log, but no row with a time yet", path=_said(source))


def _said(source: Source) -> str:
    """What to call it in a message."""
    if isinstance(source, (str, Path)):
        return "stdin" if str(source) == "-" else str(source)
    return str(getattr(source, "name", "log"))
