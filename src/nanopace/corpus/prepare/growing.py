"""A file that grows while a corpus is made, and that a killed run has left behind longer than it knew."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

from nanopace.errors import InputError
from nanopace.files import open_own


def open_growing(path: Path, size: int) -> BinaryIO:
    """Open it to append to its first `size` bytes; what is behind them is dropped.

    The directory may have come from somebody else. What would lead out of it, a link or a second name of another file,
    is not written into.
    """
    handle = open_own(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
    try:
        found = os.fstat(handle)
        if found.st_nlink > 1 or found.st_size < size:
            raise damaged(path)
        os.ftruncate(handle, size)
        return os.fdopen(handle, "ab")
    except BaseException:
        os.close(handle)
        raise


def damaged(path: Path) -> InputError:
    return InputError("{path}: is damaged; start anew with --restart", path=path)
