"""From arguments to Runs: expands directories, checks settings first, shows a bar while a large log is read."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, BinaryIO

from nanopace.cli.display.progress_bar import WithBar, bar_of_bytes
from nanopace.errors import InputError, NotALog, UsageError
from nanopace.record import Record

if TYPE_CHECKING:
    from nanopace.literals import Value
    from nanopace.run import Run, Stage
    from nanopace.sources.opening import Progress
    from nanopace.wording.catalog import Words

_WORTH_A_BAR = 16 << 20  # bytes: for less, it would only flicker


class Settings(Record):
    """What the user adds to the log's own facts."""

    config: str | None = None
    overrides: Mapping[str, Value] = MappingProxyType({})
    gpu: str | None = None
    patterns: tuple[str, ...] = ()

    def check(self) -> None:
        """Report errors now, not after reading a gigabyte of log."""
        if self.patterns:
            from nanopace.sources.formats.pattern import compile_patterns

            compile_patterns(self.patterns)
        if self.config is not None:
            from nanopace.config_text import read_config

            read_config(self.config)
        if self.gpu is not None:
            from nanopace.hardware.cards import find_cards, split_count

            find_cards(split_count(self.gpu)[1])


def settings_of(args: argparse.Namespace) -> Settings:
    """What the flags of a command add, as far as it has them."""
    gpu, patterns = getattr(args, "gpu", None), getattr(args, "pattern", ())
    settings = Settings(args.config, dict(map(override, args.set)), gpu, tuple(patterns))
    settings.check()
    return settings


def override(text: str) -> tuple[str, Value]:
    """A knob from --set. The module that reads it is imported only if the flag is used."""
    from nanopace.config_text import read_override

    return read_override(text)


def find_sources(arguments: Sequence[str], words: Words, patterns: Sequence[str] = ()) -> list[str]:
    """The logs to read: a directory stands for the logs in it, which are listed on stderr."""
    if patterns:
        return list(arguments)  # nothing tells which files in a directory they fit
    from nanopace.sources.formats.registry import known_trainers
    from nanopace.sources.processes.rank_files import RankFiles, group_rank_files
    from nanopace.sources.runs import find_logs
    from nanopace.wording.printable import clean

    if arguments.count("-") > 1:
        raise UsageError("-: standard input can be read only once")
    sources: list[str] = []
    for argument in arguments:
        if argument == "-" or not os.path.isdir(argument):
            sources.append(argument)
            continue
        grouped = group_rank_files(find_logs(argument))
        logs = [str(each.source if isinstance(each, RankFiles) else each) for each in grouped]
        if not logs:
            raise NotALog(
                "{path}: no training log in this directory; known are the logs of {formats}",
                path=argument,
                formats=known_trainers(),
            )
        names = ", ".join(os.path.relpath(log, argument) for log in logs)
        said = words.plural(
            "{path}: {n} log: {names}", "{path}: {n} logs: {names}", len(logs), path=argument, names=names
        )
        print(clean(said), file=sys.stderr)
        sources += logs
    return sources


def read_runs(source: str, settings: Settings) -> list[Run]:
    """The runs in one log, with a progress bar if it is large."""
    with _Bar(source) as bar:
        return read_quietly(source, settings, bar.update)


def read_quietly(source: str | BinaryIO, settings: Settings, progress: Progress | None = None) -> list[Run]:
    """The same without a bar."""
    from nanopace.sources.runs import open_runs

    return open_runs(
        source,
        config=settings.config,
        overrides=settings.overrides,
        gpu=settings.gpu,
        patterns=settings.patterns,
        progress=progress,
    )


def of_stage(runs: Sequence[Run], stage: Stage | None, source: str) -> list[Run]:
    """The runs of a stage, or all of them. It is an error if the log lacks that stage."""
    if stage is None:
        return list(runs)
    found = [run for run in runs if run.stage == stage]
    if not found:
        known = ", ".join(dict.fromkeys(run.stage for run in runs if run.stage is not None)) or "-"
        raise InputError(
            "{path}: has no run of stage {stage}; its stages: {known}", path=source, stage=stage, known=known
        )
    return found


class _Bar(WithBar):
    """Speed and time left on stderr, for a log that takes a while; nothing if stderr is not a terminal."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._wanted = sys.stderr.isatty()

    def update(self, done: int, total: int | None) -> None:
        if not self._wanted or max(done, total or 0) < _WORTH_A_BAR:
            return
        if self._bar is None or self._task is None:
            from rich.markup import escape

            from nanopace.wording.printable import clean

            self._bar = bar_of_bytes()
            self._task = self._bar.add_task(escape(clean(os.path.basename(self._name))))
            self._bar.start()
        self._bar.update(self._task, completed=done, total=total)
