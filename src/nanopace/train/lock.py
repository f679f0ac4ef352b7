"""One training at a time in a directory. The lock is the kernel's, so it ends with the process, however that ends."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Self

from filelock import BaseFileLock, FileLock, Timeout

from nanopace.errors import InputError, UsageError

LOCK_FILE = ".lock"  # stays when the run is over: it is not its being there that locks


class Claim:
    """To an out_dir, once it is taken and until this is left. Whoever only reads needs none."""

    def __init__(self, out_dir: Path) -> None:
        self._out_dir = out_dir
        self._lock: BaseFileLock | None = None

    def take(self) -> None:
        """Now, or not at all: nobody wants to wait for another training's end. A second time is no matter."""
        if self._lock is not None:
            return
        lock = FileLock(self._out_dir / LOCK_FILE, timeout=0)
        try:
            lock.acquire()
        except Timeout:
            raise UsageError(
                "--out_dir={out_dir}: another training is running in it; wait for its end, or choose another --out_dir",
                out_dir=self._out_dir,
            ) from None
        except NotImplementedError:  # a file system without locks: then it is up to the people
            return
        except OSError as error:
            raise InputError(
                "{path}: cannot be written: {reason}", path=self._out_dir, reason=error.strerror or str(error)
            ) from None
        self._lock = lock

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None
