"""A file that somebody else wrote, opened and read within bounds.

What lies in a downloaded directory may be a pipe, which would be waited for until somebody writes into it, or a link to
a device, which has no end.
"""

from __future__ import annotations

import errno
import io
import os
import stat
from pathlib import Path


def open_regular(path: Path) -> io.BufferedReader:
    """A file, or what a link to a file means; OSError for whatever else has this name."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        raise OSError(errno.EINVAL, "it is not a file", str(path))
    return io.BufferedReader(io.FileIO(handle))


def read_bounded(path: Path, largest: int) -> bytes | None:
    """All of a file; None if it has more bytes than `largest`."""
    with open_regular(path) as file:
        data = file.read(largest + 1)
    return data if len(data) <= largest else None
