"""Allows one run at a time in a run directory.

The kernel holds the lock, so it ends with the process, however that ends. But it locks a file, not a name: while a run
trains, somebody may remove or rename its directory and start another run in a new directory of the same name. So before
every write, `Claim.writable_dir` compares the lock file now in place with our own.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterable
from itertools import count
from pathlib import Path
from typing import Self

from nanopace.errors import Message, UsageError, unwritable
from nanopace.files import make_directory, open_own
from nanopace.ledger.file import LEDGER_FILE
from nanopace.train.checkpoint.layout import checkpoint_directories

try:
    import fcntl
except ImportError:  # Windows: no lock, as on a file system without locks
    fcntl = None  # type: ignore[assignment]

LOCK_FILE = ".lock"  # stays after the run: what counts is the kernel's lock, not the file

_NO_LOCKS = (errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK)


class Claim:
    """A run's claim to its out_dir, from `take` to the end of this context. Reading needs no claim."""

    def __init__(self, out_dir: Path) -> None:
        self._out_dir = self.run_dir = out_dir
        self._absolute = Path(os.path.abspath(out_dir))  # resolved now: the current directory may be removed later
        self._handles: list[int] = []
        self._lock_id: tuple[int, int] | None = None  # device and inode of our lock file
        self._dir_handle: int  # kept open, so that no other directory gets its inode
        self._mutex = threading.RLock()  # a signal handler may write to the ledger in the middle of `writable_dir`
        self._looking = False
        self._news: list[str] = []

    @property
    def lost(self) -> bool:
        """Whether another run has taken out_dir, so that this one writes to `run_dir` next to it."""
        return self.run_dir != self._out_dir

    def take(self) -> None:
        """Take the lock or fail, without waiting for another run. Calling it twice is harmless."""
        if self._handles:
            return
        try:
            handle = _locked(self._out_dir)
            if handle is not None:
                self._hold(handle)
        except OSError as error:
            raise unwritable(self._out_dir / LOCK_FILE, error) from None
        if handle is None:
            raise UsageError(
                "--out_dir={out_dir}: another training run is using it; wait until it ends, or choose another "
                "--out_dir",
                out_dir=self._out_dir,
            )

    def writable_dir(self) -> Path:
        """Where this run may write now; OSError if nowhere. Call it before every write: it takes 2 us.

        If the directory was removed or renamed and nobody has taken its name since, it is created again.
        If another run has taken the name, this run continues in a directory next to it.
        """
        if not self._handles:  # a rank that does not write, or a run that only reads
            return self.run_dir
        with self._mutex:
            if not self._looking:
                self._looking = True
                try:
                    self._look()
                finally:
                    self._looking = False
            return self.run_dir

    def rescue(self, directory: Path) -> Path:
        """A directory elsewhere that no other run uses: `directory` itself, or a numbered folder in it."""
        for place in _numbered(directory):
            make_directory(place)
            handle = None if holds_a_run(place) else _locked(place)
            if handle is not None:
                self._handles.append(handle)
                return place
        raise AssertionError("there are numbers enough")

    def news(self) -> list[str]:
        """What happened to the directory since the last call, as lines for the user."""
        with self._mutex:
            news, self._news = self._news, []
        return news

    def _look(self) -> None:
        while (there := _file_id(self.run_dir / LOCK_FILE)) is None or there != self._lock_id:
            if there is not None or not self._retake():
                self._move_aside()

    def _retake(self) -> bool:
        """Called when the lock file is gone: take the directory again if it is still ours or holds no run."""
        make_directory(self.run_dir)
        same = os.path.samestat(os.stat(self.run_dir), os.fstat(self._dir_handle))
        if not same and holds_a_run(self.run_dir):
            return False
        handle = _locked(self.run_dir, os.O_EXCL)
        if handle is None:
            return False
        self._hold(handle)
        if not same and not self.lost:
            self._news.append(
                Message(
                    "{path} was removed or renamed during training, which continues in a new {path}", path=self.run_dir
                )
            )
        return True

    def _move_aside(self) -> None:
        """Leave the name to the run that has taken it, and continue in a new directory next to it."""
        names = (self._absolute.with_name(f"{self._absolute.name}.lost-{number}") for number in count(1))
        before, self.run_dir = self.run_dir, next(name for name in names if not os.path.lexists(name))
        self._lock_id = None
        self._news.append(
            Message(
                "{path} now belongs to another training run: it was removed or renamed while this one ran. This one "
                "writes nothing more there, and continues in {new}",
                path=before,
                new=self.run_dir,
            )
        )

    def _hold(self, handle: int) -> None:
        """Keep the lock file and its directory open until the end: a renamed directory is still ours."""
        self._handles.append(handle)
        status = os.fstat(handle)
        self._lock_id = status.st_dev, status.st_ino
        self._dir_handle = os.open(self.run_dir, os.O_RDONLY)
        self._handles.append(self._dir_handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        while self._handles:
            os.close(self._handles.pop())


def holds_a_run(directory: Path) -> bool:
    """Whether the directory holds any run, ours or another's, intact or not."""
    return os.path.lexists(directory / LEDGER_FILE) or bool(checkpoint_directories(directory))


def _locked(directory: Path, how: int = 0) -> int | None:
    """The lock file, open and locked; None if another process holds it, or with O_EXCL if another made it first.

    The file is neither read nor written, so a user's file of this name is unharmed. Links are not followed.
    """
    path = directory / LOCK_FILE
    while True:
        try:
            handle = open_own(path, os.O_RDWR | os.O_CREAT | how)
        except FileExistsError:
            return None
        try:
            if fcntl is not None:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            return None
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                os.close(handle)
                raise
        status = os.fstat(handle)
        if _file_id(path) == (status.st_dev, status.st_ino):
            return handle
        os.close(handle)  # it was removed before we got the lock: try again


def _file_id(path: Path) -> tuple[int, int] | None:
    """Device and inode of the file at this path; None if there is none."""
    try:
        status = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status.st_dev, status.st_ino


def _numbered(directory: Path) -> Iterable[Path]:
    yield directory
    for number in count(1):
        yield directory / str(number)
