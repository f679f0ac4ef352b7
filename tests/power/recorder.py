"""Records what a program does to a directory, by standing between it and `os`.

While it records, files that Python opens are also written through `os`. What it does not see, such as a library that
writes by itself, shows up as a difference between the record and the disk, which is an error.
"""

from __future__ import annotations

import builtins
import io
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import nanopace
from nanopace import files

from .disk import Data, Mark, Names, Node, Operation, Size, Sync, Trace

_OURS = os.path.dirname(nanopace.__file__)
_HELPERS = files.__file__


@contextmanager
def recording(root: Path) -> Iterator[Recorder]:
    """Record a block. Existing files are safe. No fsync is waited for."""
    recorder = Recorder(root)
    with pytest.MonkeyPatch.context() as patch:
        for module, functions in recorder.replacements().items():
            for name, function in functions.items():
                patch.setattr(module, name, function)
        yield recorder
    there = {str(each.relative_to(root)): None if each.is_dir() else each.read_bytes() for each in root.rglob("*")}
    assert recorder.trace.whole() == there, "something was done to the disk and not seen"


class Recorder:
    def __init__(self, root: Path) -> None:
        self._top = os.path.realpath(root)
        self._turn = threading.RLock()
        self._names: dict[Node, dict[str, Node]] = {}
        self._handles: dict[int, tuple[Node, os.stat_result]] = {}
        self.trace = Trace(Node(), set())
        self._add_directory(self.trace.root)
        self._adopt(root, self.trace.root)
        self.trace.first = len(self.trace.operations)

    def promise(self, what: object) -> None:
        with self._turn:
            self._add(Mark(what))

    def replacements(self) -> Mapping[Any, Mapping[str, Callable[..., Any]]]:
        own = ("open", "write", "pwrite", "ftruncate", "truncate", "fsync", "mkdir", "rmdir", "unlink", "rename")
        functions = {name: self._locked(getattr(self, f"_{name}"), getattr(os, name)) for name in own}
        same = {"fdatasync": "fsync", "remove": "unlink", "replace": "rename"}
        functions |= {name: functions[other] for name, other in same.items()}
        opening = self._opening(io.open)
        return {os: functions, io: {"open": opening}, builtins: {"open": opening}}

    def _locked(self, function: Callable[..., Any], real: Callable[..., Any]) -> Callable[..., Any]:
        """One call at a time; otherwise the order would be unknown."""

        def called(*arguments: Any, **options: Any) -> Any:
            with self._turn:
                return function(real, *arguments, **options)

        return called

    # --- what is where -----------------------------------------------------------------------------------------------

    def _add(self, operation: Operation) -> None:
        self.trace.operations.append(operation)

    def _add_directory(self, node: Node) -> None:
        self.trace.directories.add(node)
        self._names[node] = {}

    def _change(self, directory: Node, changes: Mapping[str, Node | None]) -> None:
        self._add(Names(directory, changes))
        for name, node in changes.items():
            self._names[directory].pop(name, None)
            if node is not None:
                self._names[directory][name] = node

    def _adopt(self, folder: Path, directory: Node) -> None:
        for path in sorted(folder.iterdir()):
            node = Node()
            self._change(directory, {path.name: node})
            if path.is_dir():
                self._add_directory(node)
                self._adopt(path, node)
            else:
                self._add(Data(node, 0, path.read_bytes()))
                self._add(Sync(node, None))
        self._add(Sync(directory, None))

    def _place(self, path: Any, dir_fd: int | None = None) -> tuple[Node, str] | None:
        """The directory and the name in it; None if it is outside."""
        if dir_fd is not None and dir_fd >= 0:
            directory = self._of_handle(dir_fd)
            return None if directory is None else (directory, os.fspath(path))
        parts = os.path.relpath(os.path.abspath(os.fspath(path)), self._top).split(os.sep)
        if parts[0] == os.pardir:
            return None
        node = self.trace.root
        for name in parts[:-1]:
            if node not in self._names or name not in self._names[node]:
                return None  # the call will fail
            node = self._names[node][name]
        return (node, parts[-1]) if node in self._names else None

    def _node(self, place: tuple[Node, str]) -> Node | None:
        directory, name = place
        return directory if name == os.curdir else self._names[directory].get(name)

    def _of_handle(self, handle: int) -> Node | None:
        if handle not in self._handles:
            return None
        node, status = self._handles[handle]
        return node if os.path.samestat(status, os.fstat(handle)) else None  # otherwise it was closed unseen

    # --- calls -------------------------------------------------------------------------------------------------------

    def _open(self, real: Any, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        place = self._place(path, dir_fd)
        handle: int = real(path, flags, mode, dir_fd=dir_fd)
        self._handles.pop(handle, None)
        if place is not None:
            node = self._node(place)
            if node is None:
                node = Node()
                self._change(place[0], {place[1]: node})
            elif flags & os.O_TRUNC:
                self._add(Size(node, 0))
            self._handles[handle] = node, os.fstat(handle)
        return handle

    def _write(self, real: Any, handle: int, data: Any) -> int:
        import fcntl

        node = self._of_handle(handle)
        if node is None:
            return int(real(handle, data))
        appends = fcntl.fcntl(handle, fcntl.F_GETFL) & os.O_APPEND
        at = os.fstat(handle).st_size if appends else os.lseek(handle, 0, os.SEEK_CUR)
        written = int(real(handle, data))
        self._add(Data(node, at, bytes(memoryview(data).cast("B")[:written])))
        return written

    def _pwrite(self, real: Any, handle: int, data: Any, at: int) -> int:
        written = int(real(handle, data, at))
        if (node := self._of_handle(handle)) is not None:
            self._add(Data(node, at, bytes(memoryview(data).cast("B")[:written])))
        return written

    def _ftruncate(self, real: Any, handle: int, size: int) -> None:
        real(handle, size)
        if (node := self._of_handle(handle)) is not None:
            self._add(Size(node, size))

    def _truncate(self, real: Any, path: Any, size: int) -> None:
        real(path, size)
        place = None if isinstance(path, int) else self._place(path)
        node = self._of_handle(path) if isinstance(path, int) else place and self._node(place)
        if node is not None:
            self._add(Size(node, size))

    def _fsync(self, real: Any, handle: int) -> None:
        node = self._of_handle(handle)
        if node is None:
            real(handle)
        else:
            self._add(Sync(node, _site()))

    def _mkdir(self, real: Any, path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        place = self._place(path, dir_fd)
        real(path, mode, dir_fd=dir_fd)
        if place is not None:
            node = Node()
            self._add_directory(node)
            self._change(place[0], {place[1]: node})

    def _rmdir(self, real: Any, path: Any, *, dir_fd: int | None = None) -> None:
        self._unlink(real, path, dir_fd=dir_fd)

    def _unlink(self, real: Any, path: Any, *, dir_fd: int | None = None) -> None:
        place = self._place(path, dir_fd)
        real(path, dir_fd=dir_fd)
        if place is not None:
            self._change(place[0], {place[1]: None})

    def _rename(self, real: Any, old: Any, new: Any, **where: Any) -> None:
        before, after = self._place(old, where.get("src_dir_fd")), self._place(new, where.get("dst_dir_fd"))
        real(old, new, **where)
        if before is None and after is None:
            return
        assert before is not None, "a rename into the directory"
        assert after is not None, "a rename out of the directory"
        assert before[0] is after[0], "a rename from one directory to another is not atomic, and not modelled"
        self._change(before[0], {before[1]: None, after[1]: self._node(before)})

    def _opening(self, real: Callable[..., Any]) -> Callable[..., Any]:
        """Python's `open` for writing, with its own buffers, which hold back what is not flushed."""

        def opened(
            file: Any,
            mode: str = "r",
            buffering: int = -1,
            encoding: str | None = None,
            errors: str | None = None,
            newline: str | None = None,
            closefd: bool = True,
            opener: Any = None,
        ) -> Any:
            inside = self._of_handle(file) if isinstance(file, int) else self._place(file)
            if inside is None or not set(mode) & set("wax+"):
                return real(file, mode, buffering, encoding, errors, newline, closefd, opener)
            raw = _Written(file, mode.translate({ord("b"): None, ord("t"): None}), closefd, opener or _opener)
            if buffering == 0:
                return raw
            binary = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
            return binary if "b" in mode else io.TextIOWrapper(binary, encoding, errors, newline)

        return opened


class _Written(io.FileIO):
    def write(self, data: Any, /) -> int:
        return os.write(self.fileno(), data)

    def truncate(self, size: int | None = None, /) -> int:
        size = self.tell() if size is None else size
        os.ftruncate(self.fileno(), size)
        return size


def _opener(path: Any, flags: int) -> int:
    return os.open(path, flags, 0o666)


def _site() -> str | None:
    """The line that synced, through whichever file helper. None if it is not one of ours."""
    frame = sys._getframe(3)
    if not frame.f_code.co_filename.startswith(_OURS):
        return None
    through = ""
    while frame.f_code.co_filename == _HELPERS and frame.f_back is not None:
        through += f"{frame.f_code.co_name} < "
        frame = frame.f_back
    return f"{through}{os.path.relpath(frame.f_code.co_filename, _OURS)}:{frame.f_lineno}"
