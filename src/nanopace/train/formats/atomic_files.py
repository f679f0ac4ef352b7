"""Large files, and directories of files, that are there whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from nanopace.errors import InputError
from nanopace.files import discard, make_directory, sync_directory, sync_file


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write into. It takes the place of `path` once it is on the disk, and never if anything goes wrong."""
    temporary = _beside(path)
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        sync_directory(path.parent)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError):
            raise unwritable(path, error) from None
        raise


@contextmanager
def whole_directory(path: Path) -> Iterator[Path]:
    """A directory to write files into, which are synced and get their place all at once."""
    temporary, condemned = _beside(path), _beside(path, "old")
    try:
        make_directory(path.parent)
        temporary.mkdir()
        yield temporary
        for file in temporary.iterdir():
            sync_file(file)
        sync_directory(temporary)
        if os.path.lexists(
            path
        ):  # a name can go from one file to another at once, but not from one directory to another
            os.rename(path, condemned)
        os.rename(temporary, path)
        sync_directory(path.parent)
    except BaseException as error:
        if os.path.lexists(condemned) and not os.path.lexists(path):
            os.rename(condemned, path)
        discard(temporary)
        if isinstance(error, OSError):
            raise unwritable(path, error) from None
        raise
    discard(condemned)


def _beside(path: Path, suffix: str = "part") -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.{suffix}")


def unwritable(path: Path, error: OSError) -> InputError:
    """What the disk says, and of which target: the temporary name means nothing to anybody."""
    return InputError("{path}: cannot be written: {reason}", path=path, reason=error.strerror or str(error))
