"""The run directory: who may write to it, and what happens to an earlier run in it.

A run that can be resumed is never overwritten by mistake. A run without an intact checkpoint cannot be; its files are
kept under other names: ledger-1.jsonl, checkpoints-1.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from nanopace.errors import Message, NanopaceError, UsageError, unwritable
from nanopace.files import make_directory, remove_parts, sync_directory
from nanopace.ledger.file import LEDGER_FILE
from nanopace.train.checkpoint.best import BEST
from nanopace.train.checkpoint.layout import CHECKPOINTS, checkpoint_directories, newest_intact
from nanopace.train.checkpoint.lock import Claim, holds_a_run
from nanopace.train.checkpoint.write import remove_checkpoint, sweep


def enter(out_dir: Path, claim: Claim) -> None:
    """Take the lock before reading an existing run: it may still be running.

    Clean up after a killed process right away, so that a checkpoint it was replacing is found again.
    """
    refuse_linked_checkpoints(out_dir)
    if holds_a_run(out_dir):
        claim.take()
        with _writable(out_dir):
            sweep(out_dir)


def refuse_linked_checkpoints(out_dir: Path) -> None:
    """Raise if `checkpoints` is a link: training removes old checkpoints, and those may be another run's."""
    folder = out_dir / CHECKPOINTS
    if folder.is_symlink():
        raise UsageError(
            "{path}: is a link, and training would remove checkpoints behind it that may belong to another run; "
            "remove the link, or name the directory itself with --out_dir",
            path=folder,
        )


def check_rescue(rescue_dir: str, out_dir: Path) -> None:
    """Raise now if rescue_dir cannot be used: it may not be needed for days, and now the user can name another."""
    if not rescue_dir:
        return
    place = Path(rescue_dir)
    if os.path.realpath(place) == os.path.realpath(out_dir):
        raise UsageError(
            "--rescue_dir={path}: is the same as --out_dir; name a directory on another disk", path=rescue_dir
        )
    nearest = next(each for each in (place, *place.absolute().parents) if os.path.lexists(each))
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        raise UsageError(
            "--rescue_dir={path}: is not writable; name a writable directory on another disk", path=rescue_dir
        )


def check_free(out_dir: Path) -> Sequence[NanopaceError]:
    """Refuse a directory with a run that can be resumed. Returns the errors of its damaged checkpoints, if any."""
    saved, refused = newest_intact(out_dir)
    if saved is not None:
        raise UsageError(
            "--out_dir={out_dir}: already holds a run; --init_from=resume continues it, --overwrite=True replaces it",
            out_dir=out_dir,
        )
    return refused


def clear(out_dir: Path, claim: Claim, *, anew: bool, overwrite: bool) -> str | None:
    """Prepare the directory; for a new run, nothing is written before this. Returns a line about what was set aside."""
    with _writable(out_dir):
        refuse_linked_checkpoints(out_dir)
        make_directory(out_dir / CHECKPOINTS)
        claim.take()
        sweep(out_dir)
        remove_parts(out_dir / BEST)
        if anew and overwrite:
            for directory in checkpoint_directories(out_dir):
                remove_checkpoint(directory)
            for name in (LEDGER_FILE, BEST):
                (out_dir / name).unlink(missing_ok=True)
        elif anew:
            refused = check_free(out_dir)  # checked again, now that we hold the lock
            return _set_aside(out_dir, refused)
    return None


def _set_aside(out_dir: Path, refused: Sequence[NanopaceError]) -> str | None:
    """Rename whatever could be mistaken for the new run's files, all with the same number."""
    there = [name for name in (LEDGER_FILE, BEST) if os.path.lexists(out_dir / name)]
    if checkpoint_directories(out_dir):
        there.append(CHECKPOINTS)
    if not there:
        return None
    names = (LEDGER_FILE, BEST, CHECKPOINTS)
    number = next(n for n in count(1) if not any(os.path.lexists(out_dir / _numbered(name, n)) for name in names))
    for name in there:
        os.rename(out_dir / name, out_dir / _numbered(name, number))
    (out_dir / CHECKPOINTS).mkdir(exist_ok=True)
    sync_directory(out_dir)
    kept = ", ".join(_numbered(name, number) for name in there)
    if not refused:
        return Message(
            "{path}: no checkpoint was saved here; training starts over, and what was there is kept as {kept}",
            path=out_dir,
            kept=kept,
        )
    return Message(
        "{path}: no checkpoint is intact ({reasons}); training starts over, and what was there is kept as {kept}",
        path=out_dir,
        reasons="; ".join(map(str, refused)),
        kept=kept,
    )


def _numbered(name: str, number: int) -> str:
    return f"{Path(name).stem}-{number}{Path(name).suffix}"


@contextmanager
def _writable(out_dir: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise unwritable(out_dir, error) from None
