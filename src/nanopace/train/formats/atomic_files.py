"""Exports a large file or a directory of files, completely or not at all. An error from the disk names the target: a
temporary name would mean nothing to the user."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from nanopace.errors import unwritable
from nanopace.files import atomic_file, discard, make_directory, sync_directory, sync_file


@contextmanager
def exported_file(path: Path) -> Iterator[BinaryIO]:
    try:
        with atomic_file(path) as file:
            yield file
    except OSError as error:
        raise unwritable(path, error) from None


@contextmanager
def exported_directory(path: Path) -> Iterator[Path]:
    """A temporary directory to write files into; it is synced and renamed to `path` at the end."""
    temporary, replaced = _temporary_name(path), _temporary_name(path, "old")
    try:
        make_directory(path.parent)
        temporary.mkdir()
        yield temporary
        for file in temporary.iterdir():
            sync_file(file)
        sync_directory(temporary)
        if os.path.lexists(path):  # a rename can replace a file, but not a directory with files in it
            os.rename(path, replaced)
        os.rename(temporary, path)
        sync_directory(path.parent)
    except BaseException as error:
        if os.path.lexists(replaced) and not os.path.lexists(path):
            os.rename(replaced, path)
        discard(temporary)
        if isinstance(error, OSError):
            raise unwritable(path, error) from None
        raise
    discard(replaced)


def _temporary_name(path: Path, suffix: str = "part") -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.{suffix}")
