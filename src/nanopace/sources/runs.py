"""Turns logs of any trainer, wherever they are, into Runs."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path

from nanopace.errors import InputError, NotALog, UsageError
from nanopace.record import replace
from nanopace.run import FactValue, Run
from nanopace.sources.build import RunBuilder
from nanopace.sources.detect import SNIFF_BYTES, Detector
from nanopace.sources.formats.registry import add_formats_of_packages, known_trainers
from nanopace.sources.infer.infer import complete
from nanopace.sources.log_format import LogFormat
from nanopace.sources.notebook import CELL
from nanopace.sources.opening import MOST_BYTES, Opened, Progress, Source, find_logs, open_log, truncated
from nanopace.sources.processes.died import ENDED
from nanopace.sources.processes.interleaved import Printed, of_one_process
from nanopace.sources.processes.rank_files import RankFiles, group_rank_files, read_ranks
from nanopace.sources.processes.rank_prefixes import Ranks, find_ranks, of_one_rank
from nanopace.sources.readers import LineReader
from nanopace.sources.text import CHUNK, lines, looks_binary, width_of
from nanopace.sources.unread.quoted import QuotationDetector

__all__ = ["find_logs", "open_runs"]

BULK_BYTES = 16 * CHUNK  # from here on, numpy is worth its import, and rows are folded


def open_runs(
    source: Source,
    *,
    config: str | Path | None = None,
    overrides: Mapping[str, FactValue] | None = None,
    gpu: str | None = None,
    patterns: Sequence[str] = (),
    progress: Progress | None = None,
) -> list[Run]:
    """All runs in a log: a path, "-" for standard input, a binary file, or a directory, which stands for its logs.

    `config` is a nanoGPT config file, `overrides` and `gpu` are facts that the user adds, and `patterns` are
    expressions that read any other log (see formats/pattern.py). `progress` is called with the bytes read and their
    total, if known.
    """
    knobs = None
    if config is not None:
        from nanopace.config_text import read_config

        knobs = read_config(config)
    if isinstance(source, (str, Path)) and str(source) != "-" and os.path.isdir(source):
        if patterns:
            raise UsageError("--pattern reads a file, but {path} is a directory", path=source)
        runs = _read_all(Path(source), progress)
    elif patterns:
        runs = _read_by(patterns, source, progress)
    else:
        runs = _read(source, progress)
    return [complete(run, knobs, overrides, gpu) for run in runs]


def _read_all(directory: Path, progress: Progress | None) -> list[Run]:
    runs: list[Run] = []
    for log in group_rank_files(find_logs(directory)):
        with suppress(InputError):  # it only looked like a log at its beginning
            if isinstance(log, RankFiles):
                runs += read_ranks(log, lambda source: _read(source, progress))
            else:
                runs += _read(log, progress)
    if not runs:
        raise NotALog(
            "{path}: no training log in this directory; known are the logs of {formats}",
            path=directory,
            formats=known_trainers(),
        )
    return runs


def _read(source: Source, progress: Progress | None) -> list[Run]:
    builder, around = RunBuilder(""), QuotationDetector()
    with open_log(source, progress) as log:
        builder.name = log.name
        head, detector = _head(log)
        if not any(head):
            raise NotALog(
                "{path}: is empty; supported: logs from {formats}", path=_shown_name(source), formats=known_trainers()
            )
        long = sum(map(len, head)) >= BULK_BYTES
        if detector.format is None or (long and not detector.has_row):
            raise _refusal(source, head, builder, detector, log)
        format = detector.format
        if format.opening:
            format.read_document(builder, chain(head, log.chunks))
        else:
            _read_lines(format, builder, head, log, around)
    runs = builder.finish()
    if not runs:
        raise _refusal(source, head, builder, detector, log)
    return [replace(run, truncated=log.truncated, quoted=around.quoted()) for run in runs]


def _read_by(patterns: Sequence[str], source: Source, progress: Progress | None) -> list[Run]:
    """Read with the expressions of --pattern, whatever the log looks like."""
    from nanopace.sources.formats.pattern import compile_patterns
    from nanopace.sources.formats.pattern_reader import PatternReader
    from nanopace.sources.unread.nearest_row import shortened

    builder = RunBuilder("")
    reader = PatternReader(builder, compile_patterns(patterns))
    with open_log(source, progress) as log:
        builder.name = log.name
        for line, ended in _cell_by_cell(lines(log.chunks), builder):
            (reader.feed if ended else reader.feed_cut)(line)
        reader.finish()
    if runs := builder.finish():
        return [replace(run, truncated=log.truncated) for run in runs]
    path = _shown_name(source)
    if reader.first_unread is not None:
        number, text = reader.first_unread
        text = shortened(text)
        raise NotALog("{path}: --pattern finds no numbers in line {line}: {text}", path=path, line=number, text=text)
    if reader.matched:
        raise NotALog("{path}: --pattern finds evaluations but no training rows", path=path)
    raise NotALog("{path}: --pattern matches no line", path=path)


def _read_lines(
    format: LogFormat, builder: RunBuilder, head: list[bytes], log: Opened, around: QuotationDetector
) -> None:
    long = sum(map(len, head)) >= BULK_BYTES
    beginning = [line for line, _ in lines([head[0][:SNIFF_BYTES]])]
    reader = format.open_reader(builder, width_of(beginning))
    chunks = chain(_consumed(head), log.chunks) if long else head
    if long and format.bulk_reader and _is_of_one_process(head[0], format):
        format.feed_bulk(reader, chunks)
    elif not format.row_start:
        _feed(reader, _cell_by_cell(lines(chunks), builder), around)
    else:
        ranks = find_ranks((line for line, _ in lines(head)), format)
        _feed(reader, _cell_by_cell(_of_one(lines(chunks), ranks, builder), builder), around)


def _head(log: Opened) -> tuple[list[bytes], Detector]:
    """The beginning of a log, up to its first row if that is not too far, and the detector that has examined it."""
    head, detector, size = [], Detector(), 0
    for chunk in log.chunks:
        head.append(chunk)
        detector.look_at(chunk)
        size += len(chunk)
        if size >= (BULK_BYTES if detector.has_row else MOST_BYTES):
            break
    if not detector.has_row and add_formats_of_packages():
        detector = Detector()
        for chunk in head:
            detector.look_at(chunk)
    return head, detector


def _of_one(printed: Iterable[Printed], ranks: Ranks | None, builder: RunBuilder) -> Iterable[Printed]:
    """The lines of one process, if several printed to the log."""
    if ranks is not None:
        printed = of_one_rank(printed, ranks, builder)
    return of_one_process(printed, builder)


def _is_of_one_process(chunk: bytes, format: LogFormat) -> bool:
    """Whether a single process seems to have printed a long log, judging by its beginning."""
    if not format.row_start:
        return True
    tried = RunBuilder("", format)
    ranks = find_ranks((line for line, _ in lines([chunk])), format)
    deque(of_one_process(lines([chunk]), tried), maxlen=0)
    return ranks is None and not tried.rows_of_others


def _cell_by_cell(printed: Iterable[Printed], builder: RunBuilder) -> Iterator[Printed]:
    """The lines of a log. The builder learns where a cell of a notebook begins."""
    for each in printed:
        if each[0] == CELL:
            builder.begin_cell()
        else:
            yield each


def _feed(reader: LineReader, printed: Iterable[Printed], around: QuotationDetector) -> None:
    for line, ended in printed:
        whole = ended or ENDED.search(line)  # how a process ended is complete words, which need no line end
        understood = (reader.feed if whole else reader.feed_cut)(line)
        around.add(line, of_log=understood)
    reader.finish()


def _consumed(chunks: list[bytes]) -> Iterator[bytes]:
    """The chunks, each freed after it has been read."""
    chunks.reverse()
    while chunks:
        yield chunks.pop()


# --- files that are not logs -----------------------------------------------------------------------------------------


def _refusal(source: Source, head: list[bytes], builder: RunBuilder, detector: Detector, log: Opened) -> InputError:
    """The error that says why a file cannot be read, depending on its contents."""
    from nanopace.sources.unread.nearest_row import error_line, nearest_row
    from nanopace.sources.unread.offer import offer_pattern

    path = _shown_name(source)
    if head and looks_binary(head[0][:SNIFF_BYTES]):
        return NotALog(
            "{path}: a binary file, not a training log; supported: logs from {formats}",
            path=path,
            formats=known_trainers(),
        )
    if log.truncated:
        return truncated(path)
    if not detector.has_row and (offer := offer_pattern(path, (line for line, _ in lines(head)))) is not None:
        return offer
    if builder.evaluations_seen == 1:
        return NotALog("{path}: one evaluation, but no row with a time; there is nothing to explain", path=path)
    if builder.evaluations_seen:
        return NotALog(
            "{path}: {count} evaluations, but no row with a time; there is nothing to explain",
            path=path,
            count=builder.evaluations_seen,
        )
    number, text = nearest_row((line for line, _ in lines(head)), with_loss=detector.format is not None)
    if text and not detector.has_row:  # if there is a row, it was cut off
        return NotALog(
            "{path}: no line has a step and a time; the closest is line {line}: {text}",
            path=path,
            line=number,
            text=text,
        )
    number, text = error_line(line for line, _ in lines(head))
    if text:
        return NotALog(
            "{path}: no line looks like a training step, but line {line} has an error: {text}",
            path=path,
            line=number,
            text=text,
        )
    if detector.format is not None:
        return NotALog("{path}: the start of a training log, but no row with a time yet", path=path)
    return NotALog(
        "{path}: contains text but no training log; supported: logs from {formats}, and any other with --pattern",
        path=path,
        formats=known_trainers(),
    )


def _shown_name(source: Source) -> str:
    """Its name in a message."""
    if isinstance(source, (str, Path)):
        return "stdin" if str(source) == "-" else str(source)
    return str(getattr(source, "name", "log"))
