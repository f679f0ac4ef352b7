"""Opens a log's bytes wherever they are: in a file, compressed or not, a notebook, standard input, or a directory.

Everything but a notebook is streamed. A compressed file is recognised by its first bytes, never by its name alone. A
log that was truncated, or compressed while it grew, is read as far as it goes.
"""

from __future__ import annotations

import io
import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from nanopace.compressed import DENSEST, Density, TooDenseError, counted, decompressed
from nanopace.errors import InputError
from nanopace.sources.detect import SNIFF_BYTES, Detector
from nanopace.sources.formats.registry import add_formats_of_packages
from nanopace.sources.notebook import without_notebook
from nanopace.sources.text import CHUNK, lines, looks_binary

Source = str | Path | BinaryIO
Progress = Callable[[int, int | None], object]

_MOST_FILES = 20_000  # to examine in one directory tree
MOST_BYTES = 64 << 20  # in which to search for a row: speedruns print megabytes before their first one
# Files that are not opened. A program or a page may quote a row, but is not a log.
_PROGRAMS_AND_PAGES = (".py", ".pyc", ".js", ".css", ".md", ".rst", ".html", ".ipynb", ".toml", ".yaml", ".yml", ".pdf")
_LARGE = (".pt", ".pth", ".bin", ".safetensors", ".ckpt", ".npy", ".npz", ".parquet", ".arrow", ".pkl", ".so", ".zip")
_NO_LOGS = frozenset((*_PROGRAMS_AND_PAGES, *_LARGE, ".png", ".jpg", ".gif", ".svg", ".tar", ".o"))


class Opened:
    """A log being read."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.chunks: Iterator[bytes] = iter(())
        self.truncated = False  # compressed, and ends before its log does; known when all chunks have been read


@contextmanager
def open_log(source: Source, progress: Progress | None = None) -> Iterator[Opened]:
    """The bytes of a log, in chunks: decompressed, and of a notebook what its cells printed."""
    if isinstance(source, (str, Path)) and str(source) != "-":
        path = Path(source)
        with _open_file(path) as file:
            size = os.fstat(file.fileno()).st_size or None
            stream = file if file.seekable() else counted(file)
            yield _opened(_log_name(path), stream, str(path), size, progress)
    elif isinstance(source, (str, Path)):
        if sys.stdin is None:  # as after `<&-`
            raise InputError("standard input is closed; name a file or pipe in a log")
        yield _opened("stdin", counted(sys.stdin.buffer), "stdin", None, progress)
    else:
        name = getattr(source, "name", "log")
        name = os.path.basename(name) if isinstance(name, str) else "log"
        yield _opened(name, counted(source), name, None, progress)


def _opened(name: str, file: io.BufferedReader, shown_name: str, size: int | None, progress: Progress | None) -> Opened:
    opened = Opened(name)
    opened.chunks = without_notebook(_chunks(opened, file, shown_name, size, progress), shown_name)
    return opened


def _log_name(path: Path) -> str:
    """The file's name. Our ledgers all have the same one, so theirs includes the directory."""
    if path.suffix != ".jsonl":
        return path.name
    from nanopace.ledger.file import LEDGER_FILE  # takes 40 ms, which other logs do not need

    return f"{path.absolute().parent.name}/{path.name}" if path.name == LEDGER_FILE else path.name


def find_logs(directory: str | Path) -> list[Path]:
    """The training logs in a directory and below it, by name. Hidden directories and links are left out.

    A run of ours with both a ledger and a printed log is found once. So is a run of Hugging Face's Trainer, which
    writes its history to every checkpoint. Our checkpoints, and ledgers that were set aside, are left out.
    """
    from nanopace.files import walk
    from nanopace.ledger.file import LEDGER_FILE, SET_ASIDE
    from nanopace.sources.checkpoint_states import without_earlier_states
    from nanopace.sources.same_run import identify, without_printed_copies  # imports the ledger

    found: list[Path] = []
    left = _MOST_FILES
    for folder, folders, files in walk(directory):
        logs = {}
        if LEDGER_FILE in files:
            files[:] = [name for name in files if not SET_ASIDE.fullmatch(name)]
            folders[:] = [name for name in folders if not name.startswith("checkpoints-")]
        for name in sorted(files)[:left]:
            path = Path(folder, name)
            if path.suffix.lower() not in _NO_LOGS and not name.startswith("."):
                head = _head(path)
                if head is not None:
                    logs[path] = identify(head)
        found += without_printed_copies(logs)
        left = max(0, left - len(files))
        others = {"node_modules"}
        if any(each is not None and each.is_ledger for each in logs.values()):
            others.add("checkpoints")
        folders[:] = sorted(name for name in folders if not name.startswith((".", "__")) and name not in others)
        if not left:
            break
    return without_earlier_states(found, _bytes_of)


def _bytes_of(path: Path) -> Iterator[bytes]:
    with open_log(path) as opened:
        yield from opened.chunks


def _head(path: Path) -> list[str] | None:
    """The first lines of a log; None if there is no row nearby, or nothing can be read."""
    try:
        about = path.stat()
        # Opening a pipe would wait forever, and so would reading some kernel files, which appear empty.
        if not stat.S_ISREG(about.st_mode) or not about.st_size:
            return None
        with open_log(path) as opened:
            head, detector, read = b"", Detector(), 0
            for chunk in opened.chunks:
                head = head or chunk[:SNIFF_BYTES]
                detector.look_at(chunk)
                if detector.has_row or read >= MOST_BYTES or (not read and looks_binary(head)):
                    break
                read += len(chunk)
    except (OSError, InputError):
        return None
    if not detector.has_row:
        return _head(path) if add_formats_of_packages() else None
    return [line for line, _ in lines([head])]


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


def _chunks(
    opened: Opened, file: io.BufferedReader, name: str, size: int | None, progress: Progress | None
) -> Iterator[bytes]:
    """The decompressed bytes. `progress` is called with the bytes of the file itself."""
    out = 0
    try:
        stream = decompressed(file)
        density = None if stream is file else Density(file)
        for chunk in iter(lambda: file.read(CHUNK), b"") if density is None else _unpacked(stream):
            yield chunk
            out += len(chunk)
            if density is not None:
                density.add(len(chunk))
            if progress is not None:
                progress(out if density is None or size is None else file.tell(), size)
    except EOFError:
        if not out:
            raise truncated(name) from None
        opened.truncated = True  # what came before is still a log
    except (TooDenseError, MemoryError):
        raise InputError(
            "{path}: unpacks to more than {times} times its size, which no log does", path=name, times=DENSEST
        ) from None
    except OSError as error:
        if not out:
            raise InputError(
                "{path}: cannot be read: {reason}", path=name, reason=error.strerror or str(error)
            ) from None
        opened.truncated = True
    except Exception as error:
        if not _is_corrupt(error):
            raise
        if not out:
            raise InputError("{path}: the compressed data is damaged: {reason}", path=name, reason=str(error)) from None
        opened.truncated = True


def truncated(name: str) -> InputError:
    """The error for a truncated file without a single row."""
    return InputError("{path}: the compressed file is truncated before the first log row", path=name)


def _unpacked(stream: BinaryIO) -> Iterator[bytes]:
    """The decompressed bytes, up to the point where the decompressor fails."""
    parts: list[bytes] = []
    try:
        while part := stream.read1(CHUNK):  # type: ignore[attr-defined]  # every decompressor has it
            parts.append(part)
            if sum(map(len, parts)) >= CHUNK:
                yield b"".join(parts)
                parts = []
    except Exception:
        if parts:
            yield b"".join(parts)
        raise
    if parts:
        yield b"".join(parts)


def _is_corrupt(error: Exception) -> bool:
    """Whether it is an error of a decompressor, without importing the decompressors."""
    return type(error).__module__.partition(".")[0] in ("zlib", "_lzma", "lzma", "zstandard", "zstd")
