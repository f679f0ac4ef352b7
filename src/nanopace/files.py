"""Reading files that may come from anyone, and writing files that are either complete or absent.

In a downloaded directory, a name may be a pipe (reading would wait for a writer), a link to a device (which never
ends), or a link to a file elsewhere (which must not be overwritten). So we read only regular files, up to a size limit,
and write only in the directory itself. Replacing a file is atomic: a kill, a full disk or a power cut leaves the old
file or the new one.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import io
import json
import os
import secrets
import stat
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from nanopace.errors import InputError, Message, unreadable

LINK = Message("it is a link, and links are not followed here")  # why something is not written

# --- reading ---------------------------------------------------------------------------------------------------------


def open_regular(path: Path) -> io.BufferedReader:
    """Open a regular file, or a link to one. OSError for anything else."""
    return io.BufferedReader(io.FileIO(_regular(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))))


def read_bounded(path: Path, largest: int) -> bytes | None:
    """All bytes of a file, or None if there are more than `largest`."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size  # read() allocates as much as it is asked for
        data = file.read(min(size, largest) + 1)
    return data if len(data) <= largest else None


def read_beginning(path: Path, most: int) -> bytes:
    """The first bytes of a file, however long it is."""
    with open_regular(path) as file:
        return file.read(most)


def read_object(path: Path, largest: int) -> dict[str, Any] | None:
    """The JSON object in a file. None if it holds anything else, has more than `largest` bytes, or would take too much
    memory; the caller knows what it expected."""
    try:
        data = read_bounded(path, largest)
        content = None if data is None or takes_much_memory(data) else json.loads(data)
    except OSError as error:
        raise unreadable(path, error) from None
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def takes_much_memory(json_text: bytes) -> bool:
    """Whether parsing may create hundreds of megabytes of Python objects: `[{},{},...]` takes thirty times its size."""
    objects = sum(json_text.count(sign) * size for sign, size in _OBJECTS.items())
    letters = len(json_text) * (
        1 if json_text.isascii() else 8
    )  # one character outside Latin-1 can make the whole string four times as wide
    return objects + letters > _MUCH_MEMORY


_OBJECTS = {b"{": 240, b"[": 72, b",": 40, b'"': 30}  # bytes: a dict, a list, a number and its slot, half a string
_MUCH_MEMORY = 384 << 20


def walk(top: str | Path) -> Iterator[tuple[str, list[str], list[str]]]:
    """Like os.walk, which exceeds Python 3.11's recursion limit in a directory a thousand levels deep."""
    left = [os.fspath(top)]
    while left:
        for folder, folders, files in islice(os.walk(left.pop()), 1):
            yield folder, folders, files
            below = [os.path.join(folder, name) for name in reversed(folders)]
            left += [path for path in below if not os.path.islink(path)]


# --- writing ---------------------------------------------------------------------------------------------------------


def open_own(path: Path, flags: int) -> int:
    """Open a file at `path` itself, and create it if `flags` say so. OSError for a link, a pipe or a device. Use this
    to write to a file that may have come with a directory."""
    try:
        return _regular(path, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError as error:
        if error.errno == errno.ELOOP or os.path.islink(path):
            raise OSError(errno.ELOOP, LINK, str(path)) from None
        raise


def check_own(path: Path) -> None:
    """Raise InputError if open_own would refuse this path. For callers that must know before they change anything."""
    if os.path.lexists(path) and not stat.S_ISREG(os.lstat(path).st_mode):
        raise InputError(
            "{path}: is a link, a pipe or a directory, not a file, so it is not overwritten; remove it", path=path
        )


@contextlib.contextmanager
def atomic_file(path: Path, *, overwrite: bool = True, durable: bool = True) -> Iterator[io.BufferedWriter]:
    """Open a temporary file that atomically replaces `path` when the block ends, unless an error occurs. Without
    `overwrite`, raise FileExistsError if `path` exists. With `durable`, the file and its name are on disk
    afterwards."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            if durable:
                os.fsync(file.fileno())
        if overwrite:
            os.replace(temporary, path)
        else:
            os.link(temporary, path)  # fails if another process was faster
            temporary.unlink()
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    if durable:
        sync_directory(path.parent)


def write_durably(path: Path, data: bytes) -> None:
    """Replace `path` with `data` atomically. When this returns, the data is on disk."""
    with atomic_file(path) as file:
        file.write(data)


def remove_parts(path: Path) -> None:
    """Remove temporary files of this path, left by processes that were killed while writing."""
    for part in path.parent.glob(f".{glob.escape(path.name)}.*.part"):
        part.unlink(missing_ok=True)


def discard(path: Path) -> None:
    """Remove whatever has this name, as far as possible. Of a link, only the link: its target may be another's."""
    import shutil  # imports decompressors that readers do not need

    with contextlib.suppress(OSError, RecursionError):
        if stat.S_ISDIR(os.lstat(path).st_mode):
            shutil.rmtree(path, ignore_errors=True)
        else:  # rmtree would open a pipe and wait
            os.unlink(path)


def make_directory(directory: Path) -> list[Path]:
    """Create a directory and its parents, and sync them to disk, so that files saved there are not lost with them.
    Return the new directories, innermost first."""
    new = [each for each in (directory, *directory.parents) if not each.exists()]
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except FileExistsError:  # its message does not say what is wrong
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(directory)) from None
    for each in new:
        sync_directory(each.parent)
    return new


def sync_directory(directory: Path) -> None:
    """Wait until the names in a directory are on disk. Until then, a rename can be lost."""
    sync_file(directory)


def sync_file(path: Path) -> None:
    """Wait until a file written by someone else is on disk. Its name may not be."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _regular(path: Path, flags: int) -> int:
    handle = os.open(path, flags | getattr(os, "O_CLOEXEC", 0), 0o666)
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        raise OSError(errno.EINVAL, Message("it is not a regular file"), str(path))
    return handle
