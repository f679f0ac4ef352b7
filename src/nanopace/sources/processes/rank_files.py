"""Reads a directory that torchrun fills: a file per rank and per attempt to start them all.

    torchrun --log-dir D --redirects 3      D/<run>_<random>/attempt_0/<rank>/{stdout,stderr}.log

Together they are one run. One rank is read, with all its attempts in succession; the times of the others show which
rank was the slowest.
"""

from __future__ import annotations

import io
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, NamedTuple, cast

from nanopace.errors import InputError
from nanopace.medians import upper_median
from nanopace.record import replace
from nanopace.run import Fact, OtherRanks, Run
from nanopace.sources.processes.rank_lags import RankLags

_ATTEMPT = re.compile(r"attempt_(\d{1,9})", re.ASCII)
_RANK = re.compile(r"\d{1,6}", re.ASCII)
_STREAMS = ("stdout.log", "stderr.log")
_FILTERED = ("filtered_stdout.log", "filtered_stderr.log")  # copies of some ranks' lines


class RankFiles(NamedTuple):
    """The logs of one run."""

    directory: Path
    attempts: Mapping[int, Mapping[int, Sequence[Path]]]  # attempt, then rank: its files that have rows

    @property
    def source(self) -> Path:
        """What represents them all: a directory, or the only file."""
        return Path(
            os.path.commonpath([file for ranks in self.attempts.values() for each in ranks.values() for file in each])
        )


def group_rank_files(logs: Iterable[Path]) -> list[Path | RankFiles]:
    """The same logs in order, with those of torchrun's ranks grouped."""
    grouped: list[Path | RankFiles] = []
    runs: dict[Path, dict[int, dict[int, list[Path]]]] = {}
    others: list[Path] = []
    for log in logs:
        place = _place(log)
        if place is None:
            others.append(log)
            grouped.append(log)
            continue
        directory, attempt, rank = place
        if directory not in runs:
            runs[directory] = {}
            grouped.append(RankFiles(directory, runs[directory]))
        runs[directory].setdefault(attempt, {}).setdefault(rank, []).append(log)
    twice = {log for log in others if log.name in _FILTERED and log.absolute().parent.parent in runs}
    return [each for each in grouped if isinstance(each, RankFiles) or each not in twice]


def _place(log: Path) -> tuple[Path, int, int] | None:
    """The run's directory, attempt and rank of a file; None if torchrun did not name it."""
    rank = log.absolute().parent
    attempt = _ATTEMPT.fullmatch(rank.parent.name)
    if log.name not in _STREAMS or attempt is None or not _RANK.fullmatch(rank.name):
        return None
    return rank.parent.parent, int(attempt[1]), int(rank.name)


def read_ranks(files: RankFiles, read: Callable[[Path | BinaryIO], list[Run]]) -> list[Run]:
    """The runs of the rank that has the loss, or of the first, with what the others add."""
    ranks = sorted({rank for attempt in files.attempts.values() for rank in attempt})
    runs: dict[int, list[Run]] = {}
    for rank in ranks:
        with suppress(InputError):  # it only looked like a log at its beginning
            runs[rank] = _read_rank(files, rank, read)
    if not runs:
        return []
    with_loss = (rank for rank in runs if any(not math.isnan(loss) for run in runs[rank] for loss in run.logged.loss))
    chosen = next(with_loss, min(runs))
    others = {rank: each for rank, each in runs.items() if rank != chosen and len(each) == len(runs[chosen])}
    return [
        _with_others(run, chosen, {rank: each[index] for rank, each in others.items()}, files.directory.name)
        for index, run in enumerate(runs[chosen])
    ]


def _read_rank(files: RankFiles, rank: int, read: Callable[[Path | BinaryIO], list[Run]]) -> list[Run]:
    """Read a rank from its stdout or, if that has no rows, from its stderr."""
    logs = [files.attempts[attempt][rank][0] for attempt in sorted(files.attempts) if rank in files.attempts[attempt]]
    if len(logs) == 1:
        return read(logs[0])
    with io.BufferedReader(_Chain(logs)) as chain:
        return read(cast("BinaryIO", chain))


def _with_others(run: Run, rank: int, others: Mapping[int, Run], directory: str) -> Run:
    """The run with what `others`, the other ranks that logged it, add."""
    _, number, which = run.name.partition(" #")
    run = replace(run, name=f"{directory}{number}{which}")
    if not others:
        return run
    facts = dict(run.facts)
    facts.setdefault("world_size", Fact(len(others) + 1, "log"))
    return replace(
        run,
        facts=MappingProxyType(facts),
        other_ranks=OtherRanks(rank, len(others) + 1, sum(each.logged.lines for each in others.values())),
        rank_lags=_lags({rank: run, **others}).all(),
    )


def _lags(runs: Mapping[int, Run]) -> RankLags:
    """Which rank was the slowest in each row that all have, except the first and those with an evaluation or a save."""
    lags = RankLags(len(runs))
    busy = {each.iteration for run in runs.values() for each in run.evaluations}
    busy |= {each.iteration for run in runs.values() for each in run.checkpoints}
    times = {
        rank: {row.iteration: row.ms for row in run.rows[1:] if row.count == 1 and row.iteration not in busy}
        for rank, run in runs.items()
    }
    for iteration in set.intersection(*map(set, times.values())):
        slowest = max(times, key=lambda rank: (times[rank][iteration], -rank))
        usual = upper_median([ms[iteration] for rank, ms in times.items() if rank != slowest])
        lags.add(slowest, times[slowest][iteration] / usual - 1 if usual > 0 else None)
    return lags


class _Chain(io.RawIOBase):
    """Files in succession, each with its last line ended."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.name = paths[-1].name
        self._paths = list(paths)
        self._file: io.BufferedReader | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while True:
            if self._file is None:
                if not self._paths:
                    return 0
                self._file = self._paths.pop(0).open("rb")
            if count := self._file.readinto(buffer):
                return count
            self._file.close()
            self._file = None
            if self._paths:
                buffer[:1] = b"\n"
                return 1
