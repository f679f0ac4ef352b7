"""The directory of a run: who may write into it, and what of an earlier run stays there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nanopace.corpus.durable import remove_parts
from nanopace.errors import InputError, UsageError
from nanopace.ledger.file import LEDGER_FILE
from nanopace.train.checkpoint import BEST
from nanopace.train.checkpoint_files import checkpoint_directories
from nanopace.train.checkpoint_writing import remove_checkpoint, sweep
from nanopace.train.lock import Claim


def enter(out_dir: Path, claim: Claim) -> None:
    """Where a run is, it may be running: before anything of it is read, we must be the only one.

    What a killed process left is cleared up right then, so that a checkpoint it was replacing can be found again.
    """
    if _holds_run(out_dir):
        claim.take()
        with _writable(out_dir):
            sweep(out_dir)


def _holds_run(out_dir: Path) -> bool:
    return (out_dir / LEDGER_FILE).exists() or bool(checkpoint_directories(out_dir))


def check_free(out_dir: Path) -> None:
    if _holds_run(out_dir):
        raise UsageError(
            "--out_dir={out_dir}: holds a run; --init_from=resume goes on with it, --overwrite=True replaces it",
            out_dir=out_dir,
        )


def clear(out_dir: Path, claim: Claim, *, anew: bool) -> None:
    """The first thing that touches the disk, where no run was before."""
    with _writable(out_dir):
        (out_dir / "checkpoints").mkdir(parents=True, exist_ok=True)
        claim.take()
        sweep(out_dir)
        remove_parts(out_dir / BEST)
        if anew:
            for directory in checkpoint_directories(out_dir):
                remove_checkpoint(directory)
            for name in (LEDGER_FILE, BEST):
                (out_dir / name).unlink(missing_ok=True)


@contextmanager
def _writable(out_dir: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError("{path}: cannot be written: {reason}", path=out_dir, reason=error.strerror) from None
