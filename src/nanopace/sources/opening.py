"""Bytes from wherever a log is: a file, a compressed file, standard input, a directory full of them.

Everything is streamed. A compressed file is told by its first bytes, never by its name alone, and a log that was
compressed while it grew, or was cut, is read as far as it goes.
"""

from __future__ import annotations

import io
import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from nanopace.compressed import DENSEST, Density, TooDenseError, decompressed
from nanopace.errors import InputError
from nanopace.sources.detect import SNIFF_BYTES, has_row
from nanopace.sources.text import CHUNK, lines

Source = str | Path | BinaryIO
Progress = Callable[[int, int | None], object]

_MOST_FILES = 20_000  # looked at in one directory tree
# Not looked into. A program or a page may quote a row, and is no log for that.
_PROGRAMS_AND_PAGES = (".py", ".pyc", ".js", ".css", ".md", ".rst", ".html", ".ipynb", ".toml", ".yaml", ".yml", ".pdf")
_LARGE = (".pt", ".pth", ".bin", ".safetensors", ".ckpt", ".npy", ".npz", ".parquet", ".arrow", ".pkl", ".so", ".zip")
_NO_LOGS = frozenset((*_PROGRAMS_AND_PAGES, *_LARGE, ".png", ".jpg", ".gif", ".svg", ".tar", ".o"))


class Opened(NamedTuple):
    """A log that is being read."""

    name: str
    chunks: Iterator[bytes]


@contextmanager
def open_log(source: Source, progress: Progress | None = None) -> Iterator[Opened]:
    """The bytes of a log, decompressed, in chunks."""
    if isinstance(source, (str, Path)) and str(source) != "-":
        path = Path(source)
        with _open_file(path) as file:
            size = os.fstat(file.fileno()).st_size or None
            yield Opened(_called(path), _chunks(file, str(path), size, progress))
    elif isinstance(source, (str, Path)):
        yield Opened("stdin", _chunks(_peekable(sys.stdin.buffer), "stdin", None, progress))
    else:
        name = getattr(source, "name", "log")
        name = os.path.basename(name) if isinstance(name, str) else "log"
        yield Opened(name, _chunks(_peekable(source), name, None, progress))


def _called(path: Path) -> str:
    """What tells a log from others: its name, or where all are called alike, as our ledgers are, its folder's too."""
    if path.suffix != ".jsonl":
        return path.name
    from nanopace.ledger.file import LEDGER_FILE  # 40 ms, which other logs need not wait for

    return f"{path.absolute().parent.name}/{path.name}" if path.name == LEDGER_FILE else path.name


def find_logs(directory: str | Path) -> list[Path]:
    """The training logs in a directory and below it, by name. Hidden directories and links are left out.

    A run of ours that left both a ledger and a printed log is found once, and its checkpoints are not looked into.
    """
    from nanopace.sources.twins import introduced, without_twins  # brings the ledger along

    found: list[Path] = []
    left = _MOST_FILES
    for folder, folders, files in os.walk(directory):
        logs = {}
        for name in sorted(files)[:left]:
            path = Path(folder, name)
            if path.suffix.lower() not in _NO_LOGS and not name.startswith("."):
                head = _head(path)
                if has_row(head):
                    logs[path] = introduced(head)
        found += without_twins(logs)
        left = max(0, left - len(files))
        others = {"node_modules"}
        if any(each is not None and each.is_ledger for each in logs.values()):
            others.add("checkpoints")
        folders[:] = sorted(name for name in folders if not name.startswith((".", "__")) and name not in others)
        if not left:
            break
    return found


def _head(path: Path) -> list[str]:
    """The first lines of what may be a log; none of what cannot be read."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # opening a pipe would wait for ever
            return []
        with open_log(path) as opened:
            head = _first(opened.chunks, SNIFF_BYTES)
    except (OSError, InputError):
        return []
    return [line for line, _ in lines([head])]


def _first(chunks: Iterator[bytes], size: int) -> bytes:
    head = b""
    for chunk in chunks:
        head += chunk
        if len(head) >= size:
            break
    return head[:size]


def _open_file(path: Path) -> io.BufferedReader:
    try:
        return path.open("rb")
    except FileNotFoundError:
        raise InputError("{path}: no such file", path=path) from None
    except PermissionError:
        raise InputError("{path}: permission denied", path=path) from None
    except IsADirectoryError:
        raise InputError("{path}: is a directory", path=path) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError("{path}: cannot be read: {reason}", path=path, reason=reason) from None


def _peekable(stream: BinaryIO) -> io.BufferedReader:
    if isinstance(stream, io.BufferedReader):
        return stream
    return io.BufferedReader(cast(io.RawIOBase, stream))


def _chunks(file: io.BufferedReader, name: str, size: int | None, progress: Progress | None) -> Iterator[bytes]:
    """The decompressed bytes. `progress` hears of the bytes of the file itself."""
    done = 0
    try:
        stream = decompressed(file, _zstd)
        density = None if stream is file else Density(file)
        while chunk := stream.read(CHUNK):
            yield chunk
            if density is not None:
                density.add(len(chunk))
            done = done + len(chunk) if stream is file or size is None else file.tell()
            if progress is not None:
                progress(done, size)
    except EOFError:
        pass  # compressed, and cut: what came before is a log all the same
    except (TooDenseError, MemoryError):
        raise InputError(
            "{path}: unpacks to more than {times} times its size, and no log does", path=name, times=DENSEST
        ) from None
    except OSError as error:
        if not done:
            raise InputError(
                "{path}: cannot be read: {reason}", path=name, reason=error.strerror or str(error)
            ) from None
    except Exception as error:
        if not _is_corrupt(error):
            raise
        if not done:
            raise InputError("{path}: is compressed, but broken: {reason}", path=name, reason=str(error)) from None


def _zstd(file: io.BufferedReader) -> BinaryIO:
    """Gives what is there of a file that is cut: the log of a run that goes on is."""
    import zstandard

    return cast(BinaryIO, zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True, closefd=False))


def _is_corrupt(error: Exception) -> bool:
    """The decompressors' own errors, without importing the decompressors."""
    return type(error).__module__.partition(".")[0] in ("zlib", "_lzma", "lzma", "zstandard", "zstd")
