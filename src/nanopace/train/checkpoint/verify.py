"""Checks every checkpoint of a run against its checksums, and reports what is wrong with the damaged ones."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from nanopace.errors import InputError, NanopaceError
from nanopace.knob_values import step_of_which
from nanopace.train.checkpoint.best import read_best
from nanopace.train.checkpoint.choose import directory_of, directory_of_best, nothing_to_choose
from nanopace.train.checkpoint.layout import CHECKPOINTS, STATE, OnBytes, checkpoint_directories, step_of, verified


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result for one checkpoint."""

    path: Path
    step: int | None  # None if unknown, because its state cannot be read
    bytes: int
    wrong: NanopaceError | None  # None if it is intact
    best: float | None = None  # its validation loss, if it is the best of its run


def find_checkpoints(path: Path, which: str = "") -> Sequence[Path]:
    """The checkpoints of an out_dir, oldest first, or `path` itself if it is one. `which` selects a single one."""
    step = step_of_which(which)
    if os.path.lexists(path / STATE):
        if which:
            raise nothing_to_choose(path, which)
        return [path]
    found = checkpoint_directories(path)[::-1]
    if not found:
        raise InputError("{path}: no checkpoint here", path=path)
    if step is not None:
        return [directory_of(path, step)]
    return [directory_of_best(path)] if which == "best" else found[-1:] if which == "last" else found


def size_of(directory: Path) -> int:
    """The size of its files in bytes. Links are not followed."""
    try:
        with os.scandir(directory) as entries:
            return sum(entry.stat(follow_symlinks=False).st_size for entry in entries)
    except OSError:
        return 0


def verdicts(directories: Sequence[Path], on_bytes: OnBytes) -> Iterator[Verdict]:
    """Yield a verdict for each checkpoint, except for those that a training run removes meanwhile."""
    for directory in directories:
        wrong: NanopaceError | None = None
        step = _step(directory)
        try:
            step = verified(directory, on_bytes).step
        except InputError as error:
            if not os.path.lexists(directory):
                continue
            wrong = error
        best = read_best(directory.parent.parent) if directory.parent.name == CHECKPOINTS else None
        loss = best[1] if best is not None and best[0] == step else None
        yield Verdict(directory, step, size_of(directory), wrong, loss)


def _step(directory: Path) -> int | None:
    try:
        return step_of(directory.name)
    except AssertionError:
        return None
