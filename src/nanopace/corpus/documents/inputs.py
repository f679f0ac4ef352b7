"""Finds the files for a corpus: arguments may be files, directories or patterns."""

from __future__ import annotations

import glob
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath

from nanopace.errors import InputError
from nanopace.files import walk

# The suffixes that are read in a directory or an archive. A file named explicitly is read whatever its suffix.
_PROSE = (".txt", ".text", ".md", ".markdown", ".rst", ".tex", ".srt", ".html", ".htm", ".xml", ".csv", ".tsv")
_PROGRAMS = (".py", ".pyi", ".c", ".h", ".cc", ".cpp", ".hpp", ".cu", ".cuh", ".rs", ".go", ".java", ".kt", ".scala")
_SCRIPTS = (".js", ".mjs", ".ts", ".tsx", ".jsx", ".css", ".sh", ".sql", ".rb", ".php", ".lua", ".pl", ".r", ".jl")
_MORE = (".cs", ".swift", ".hs", ".ml", ".ex", ".erl", ".lisp", ".clj", ".f90", ".m", ".yaml", ".yml", ".toml", ".ini")
JSON_LINES = (".jsonl", ".ndjson")
PARQUET = ".parquet"
ARCHIVE = ".zip"
COMPRESSED = (".gz", ".zst", ".xz", ".bz2")
_TEXTS = frozenset((*_PROSE, *_PROGRAMS, *_SCRIPTS, *_MORE, *JSON_LINES))
_FILES = frozenset((PARQUET, ARCHIVE))


def find_inputs(arguments: Sequence[str]) -> list[Path]:
    """The files that the arguments stand for, each once, in a fixed order."""
    found: dict[Path, None] = {}
    for argument in arguments:
        for path in _named(argument):
            found |= dict.fromkeys(_below(path) if path.is_dir() else [path])
    return list(found)


def holds_text(name: str) -> bool:
    """Whether to read a member of an archive: its name decides, as in a directory."""
    return _inner_suffix(PurePath(name)) in _TEXTS and not any(_is_hidden(part) for part in PurePath(name).parts)


def is_json_lines(name: str) -> bool:
    return _inner_suffix(PurePath(name)) in JSON_LINES


def _named(argument: str) -> list[Path]:
    path = Path(argument)
    try:
        exists = path.exists()
    except (OSError, ValueError):  # a name that no file can have
        exists = False
    if exists:
        return [path]
    if glob.has_magic(argument) and "\0" not in argument:
        matching = [Path(each) for each in sorted(glob.glob(argument, recursive=True))]
        if matching:
            # `**` matches directories and their contents: keep only the files, or each would be found twice
            return [each for each in matching if each.is_file()] or matching
        raise InputError("{path}: no file matches", path=argument)
    raise InputError("{path}: there is no file or corpus of that name", path=argument)


def _below(directory: Path) -> list[Path]:
    """The files below a directory, sorted. Hidden files and links to directories are left out."""
    found = sorted(_readable(directory))
    if not found:
        raise InputError("{path}: contains no text, .jsonl, .parquet or .zip files", path=directory)
    return found


def _readable(directory: Path) -> Iterator[Path]:
    for folder, folders, files in walk(directory):
        folders[:] = [name for name in folders if not _is_hidden(name) and name != "node_modules"]
        for name in files:
            path = Path(folder, name)
            known = _inner_suffix(path) in _TEXTS or path.suffix.lower() in _FILES
            if known and not _is_hidden(name) and path.is_file():
                yield path


def _inner_suffix(path: PurePath) -> str:
    """The suffix without that of the compression: .jsonl for both rows.jsonl and rows.jsonl.zst."""
    suffix = path.suffix.lower()
    return PurePath(path.stem).suffix.lower() if suffix in COMPRESSED else suffix


def _is_hidden(name: str) -> bool:
    return name.startswith((".", "__MACOSX", "__pycache__")) and name not in (".", "..")
