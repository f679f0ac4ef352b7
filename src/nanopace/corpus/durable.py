"""Files that are there whole or not at all, whatever happens in between: a kill, a full disk, a power cut."""

from __future__ import annotations

import contextlib
import glob
import os
import secrets
from pathlib import Path


def write_durably(path: Path, data: bytes) -> None:
    """Put `data` in the place of `path`: from one moment to the next, and on the disk when this returns."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    sync_directory(path.parent)


def remove_parts(path: Path) -> None:
    """What processes left that were killed while they wrote this file."""
    for part in path.parent.glob(f".{glob.escape(path.name)}.*.part"):
        part.unlink(missing_ok=True)


def sync_directory(directory: Path) -> None:
    """Wait until the names in a directory are on the disk: a rename is not, before that."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
