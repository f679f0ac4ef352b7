"""Files that somebody else may have put there, and files that must be there whole.

What lies in a downloaded directory may be a pipe, which would be waited for until somebody writes into it, a link to a
device, which has no end, or a link to a file outside, which must not be written. So whatever is read is a regular file
of bounded size, and whatever is written lies in the directory itself. What replaces a file does so as a whole, whatever
happens in between: a kill, a full disk, a power cut.
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
    """A file, or what a link to a file means; OSError for whatever else has this name."""
    return io.BufferedReader(io.FileIO(_regular(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))))


def read_bounded(path: Path, largest: int) -> bytes | None:
    """All of a file; None if it has more bytes than `largest`."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size  # Python makes room for as much as is asked for
        data = file.read(min(size, largest) + 1)
    return data if len(data) <= largest else None


def read_beginning(path: Path, most: int) -> bytes:
    """As much of a file as is needed, however long it is."""
    with open_regular(path) as file:
        return file.read(most)


def read_object(path: Path, largest: int) -> dict[str, Any] | None:
    """A JSON object. None where the file holds anything else, or more bytes than `largest`, or more than fits into
    memory: callers know what they had hoped for."""
    try:
        data = read_bounded(path, largest)
        content = None if data is None or takes_much_memory(data) else json.loads(data)
    except OSError as error:
        raise unreadable(path, error) from None
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def takes_much_memory(json_text: bytes) -> bool:
    """Whether this may become hundreds of megabytes of Python's objects: `[{},{},...]` takes thirty times its bytes."""
    objects = sum(json_text.count(sign) * size for sign, size in _OBJECTS.items())
    letters = len(json_text) * (
        1 if json_text.isascii() else 8
    )  # one that is not in Latin makes all four times as wide
    return objects + letters > _MUCH_MEMORY


_OBJECTS = {b"{": 240, b"[": 72, b",": 40, b'"': 30}  # bytes: a dict, a list, a number with its place, half a string
_MUCH_MEMORY = 384 << 20


def walk(top: str | Path) -> Iterator[tuple[str, list[str], list[str]]]:
    """As os.walk, whose recursion ends Python 3.11 in a directory that is a thousand levels deep."""
    left = [os.fspath(top)]
    while left:
        for folder, folders, files in islice(os.walk(left.pop()), 1):
            yield folder, folders, files
            below = [os.path.join(folder, name) for name in reversed(folders)]
            left += [path for path in below if not os.path.islink(path)]


# --- writing ---------------------------------------------------------------------------------------------------------


def open_own(path: Path, flags: int) -> int:
    """A handle of a file that lies at `path` itself, and is made there if `flags` say so; OSError for a link, a pipe, a
    device. To write into a file that may have come with a directory, open it with this."""
    try:
        return _regular(path, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError as error:
        if error.errno == errno.ELOOP or os.path.islink(path):
            raise OSError(errno.ELOOP, LINK, str(path)) from None
        raise


def check_own(path: Path) -> None:
    """Whether open_own would take it: for whoever has to know before anything is touched."""
    if os.path.lexists(path) and not stat.S_ISREG(os.lstat(path).st_mode):
        raise InputError(
            "{path}: is a link, a pipe or a directory, not a file, so it is not overwritten; remove it", path=path
        )


@contextlib.contextmanager
def atomic_file(path: Path, *, overwrite: bool = True, durable: bool = True) -> Iterator[io.BufferedWriter]:
    """A file to write into. When the block ends, it takes the place of `path` from one moment to the next, and never if
    anything goes wrong. Without `overwrite`, FileExistsError where something is there. A `durable` one is on the disk,
    with its name, when the block ends."""
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
            os.link(temporary, path)  # fails where somebody was quicker
            temporary.unlink()
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    if durable:
        sync_directory(path.parent)


def write_durably(path: Path, data: bytes) -> None:
    """Put `data` in the place of `path`: from one moment to the next, and on the disk when this returns."""
    with atomic_file(path) as file:
        file.write(data)


def remove_parts(path: Path) -> None:
    """What processes left that were killed while they wrote this file."""
    for part in path.parent.glob(f".{glob.escape(path.name)}.*.part"):
        part.unlink(missing_ok=True)


def discard(path: Path) -> None:
    """Remove whatever has this name, as far as it goes. Of a link the link alone: what it leads to may be another's."""
    import shutil  # brings decompressors along that readers do not need

    with contextlib.suppress(OSError, RecursionError):
        if stat.S_ISDIR(os.lstat(path).st_mode):
            shutil.rmtree(path, ignore_errors=True)
        else:  # rmtree would open a pipe, and wait
            os.unlink(path)


def make_directory(directory: Path) -> list[Path]:
    """Make a directory, and those above it, on the disk when this returns: what is saved in it would be lost with it.
    Returns those that are new, the innermost first."""
    new = [each for each in (directory, *directory.parents) if not each.exists()]
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except FileExistsError:  # which says nothing of what is wrong with it
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(directory)) from None
    for each in new:
        sync_directory(each.parent)
    return new


def sync_directory(directory: Path) -> None:
    """Wait until the names in a directory are on the disk: a rename is not, before that."""
    sync_file(directory)


def sync_file(path: Path) -> None:
    """Wait until a file that somebody else has written is on the disk; its name may not be."""
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
