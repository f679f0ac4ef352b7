"""One training at a time in a directory, however it came to be there.

The lock is the kernel's, so it ends with the process, however that ends. But it is on a file, not on a name: somebody
may remove or rename the directory under a training, and start another one in a new directory of that name. So whoever
writes into it asks `Claim.directory` first, every time, which holds the lock file that is there against our own.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterable
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Self

from nanopace.errors import InputError, UsageError
from nanopace.files import make_directory, open_own
from nanopace.ledger.file import LEDGER_FILE
from nanopace.train.checkpoint.layout import checkpoint_directories

try:
    import fcntl
except ImportError:  # then it is up to the people, as on a file system without locks
    fcntl = None  # type: ignore[assignment]

LOCK_FILE = ".lock"  # stays when the run is over: it is not its being there that locks

_NO_LOCKS = (errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK)


class Claim:
    """To an out_dir, once it is taken and until this is left. Whoever only reads needs none."""

    def __init__(self, out_dir: Path) -> None:
        self._out_dir = self.home = out_dir
        self._beside = Path(os.path.abspath(out_dir))  # now: the current directory may be removed, too
        self._handles: list[int] = []
        self._own: tuple[int, int] | None = None  # the lock file at home
        self._home_handle = -1  # so that no other directory gets its number
        self._turn = threading.Lock()
        self._news: list[str] = []

    @property
    def lost(self) -> bool:
        """Another training has out_dir now, and this one goes on at `home`, beside it."""
        return self.home != self._out_dir

    def take(self) -> None:
        """Now, or not at all: nobody wants to wait for another training's end. A second time is no matter."""
        if self._handles:
            return
        try:
            handle = _locked(self._out_dir)
            if handle is not None:
                self._keep(handle)
        except OSError as error:
            raise InputError(
                "{path}: cannot be written: {reason}",
                path=self._out_dir / LOCK_FILE,
                reason=error.strerror or str(error),
            ) from None
        if handle is None:
            raise UsageError(
                "--out_dir={out_dir}: another training is running in it; wait for its end, or choose another --out_dir",
                out_dir=self._out_dir,
            )

    def directory(self) -> Path:
        """Where this run may write, now; OSError if there is no such place. Ask before every write: it takes 2 us.

        Where somebody removed or renamed the directory and nobody has taken its name since, it is made again.
        Where another training has the name, this run goes on beside it.
        """
        if not self._handles:  # of a rank that does not write, or of a run that only reads
            return self.home
        with self._turn:
            while (there := _identity(self.home / LOCK_FILE)) is None or there != self._own:
                if there is not None or not self._take_again():
                    self._give_way()
            return self.home

    def rescue(self, directory: Path) -> Path:
        """A place for this run elsewhere, that no other run has: `directory` itself, or else a folder in it."""
        for place in _numbered(directory):
            make_directory(place)
            handle = None if holds_a_run(place) else _locked(place)
            if handle is not None:
                self._handles.append(handle)
                return place
        raise AssertionError("there are numbers enough")

    def news(self) -> list[str]:
        """What became of the directory since this was last asked."""
        with self._turn:
            news, self._news = self._news, []
        return news

    def _take_again(self) -> bool:
        """No lock file is there. What is there instead must be nobody's, or ours as before."""
        make_directory(self.home)
        same = os.path.samestat(os.stat(self.home), os.fstat(self._home_handle))
        if not same and holds_a_run(self.home):
            return False
        handle = _locked(self.home, os.O_EXCL)
        if handle is None:
            return False
        self._keep(handle)
        if not same and not self.lost:
            self._news.append(f"{self.home} was removed or renamed while training ran; it goes on in a new {self.home}")
        return True

    def _give_way(self) -> None:
        """To whoever has taken the name meanwhile: what is there may be all that they have."""
        names = (self._beside.with_name(f"{self._beside.name}.lost-{number}") for number in count(1))
        before, self.home = self.home, next(name for name in names if not os.path.lexists(name))
        self._own = None
        self._news.append(
            f"{before} is another training's: it was removed or renamed while this one ran. This one writes nothing "
            f"more there, and goes on in {self.home}"
        )

    def _keep(self, handle: int) -> None:
        """All of them to the end: a directory that was renamed is still ours."""
        self._handles.append(handle)
        status = os.fstat(handle)
        self._own = status.st_dev, status.st_ino
        self._home_handle = os.open(self.home, os.O_RDONLY)
        self._handles.append(self._home_handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._handles:
            os.close(self._handles.pop())


def holds_a_run(directory: Path) -> bool:
    """Ours or another's, whole or not."""
    return os.path.lexists(directory / LEDGER_FILE) or bool(checkpoint_directories(directory))


def _locked(directory: Path, how: int = 0) -> int | None:
    """The lock file, open and locked; None while another process has it, or came first where `how` is O_EXCL.

    It is neither read nor written, so nothing is lost that somebody gave this name, and a link is not followed.
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
        if _identity(path) == (status.st_dev, status.st_ino):
            return handle
        os.close(handle)  # somebody removed it before it was locked


def _identity(path: Path) -> tuple[int, int] | None:
    """Which file has this name; None: there is none."""
    try:
        status = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status.st_dev, status.st_ino


def _numbered(directory: Path) -> Iterable[Path]:
    yield directory
    for number in count(1):
        yield directory / str(number)
