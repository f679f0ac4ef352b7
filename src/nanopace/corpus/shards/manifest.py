"""corpus.json: which files a corpus consists of, and what is in them.

A shard is finished if and only if the manifest lists it. The manifest is replaced atomically, so a reader always sees a
consistent state.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal, cast

from nanopace.errors import InputError
from nanopace.files import read_object, write_durably

MANIFEST: Final = "corpus.json"
FORMAT: Final = 1
LARGEST_FILE: Final = 1 << 26  # bytes: a quarter of a million shards
_LARGEST_NUMBER = (1 << 63) - 1  # for any count in this file

Dtype = Literal["uint16", "uint32"]
SplitName = Literal["train", "val"]
SPLITS: Final[tuple[SplitName, SplitName]] = ("train", "val")
TOKEN_BYTES: Final[dict[Dtype, int]] = {"uint16": 2, "uint32": 4}


@dataclass(frozen=True, slots=True)
class ShardEntry:
    """One finished file of tokens."""

    file: str  # in the manifest's directory
    tokens: int
    text_bytes: int  # UTF-8 bytes of text that the tokens represent
    sha256: str
    max_id: int  # the largest token id in it
    documents: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """A corpus that nanopace prepared."""

    name: str
    tokenizer: str  # its kind
    tokenizer_hash: str
    vocab_size: int
    dtype: Dtype
    train: tuple[ShardEntry, ...]
    val: tuple[ShardEntry, ...]
    complete: bool  # False while it is being prepared

    def split(self, name: SplitName) -> tuple[ShardEntry, ...]:
        return self.train if name == "train" else self.val


def shard_name(split: SplitName, number: int) -> str:
    return f"{split}-{number:05}.bin"


def smallest_dtype(vocab_size: int) -> Dtype:
    """The smallest type that holds every id of a vocabulary."""
    return "uint16" if vocab_size <= 1 << 16 else "uint32"


def write_manifest(directory: Path, manifest: Manifest) -> None:
    content = asdict(manifest)
    splits = {name: content.pop(name) for name in SPLITS}
    text = json.dumps({"nanopace": FORMAT, **content, "splits": splits}, indent=1) + "\n"
    write_durably(directory / MANIFEST, text.encode())


def read_manifest(directory: Path) -> Manifest:
    """Read the manifest of a corpus and check each field. The files that it lists are not checked."""
    path = directory / MANIFEST
    content = _read(path)
    if content.get("nanopace") != FORMAT:
        raise InputError("{path}: this version of nanopace cannot read this manifest", path=path)
    try:
        return _manifest(content)
    except ValueError as field:
        raise InputError("{path}: is damaged: its {field} cannot be right", path=path, field=str(field)) from None


def check_files(directory: Path, manifest: Manifest) -> None:
    """Check that every file in the manifest exists and has the right size."""
    for name in SPLITS:
        for entry in manifest.split(name):
            path = directory / entry.file
            if not path.is_file():
                raise InputError("{path}: is missing, but the manifest lists it", path=path)
            if path.resolve().parent != directory.resolve():
                raise InputError("{path}: points outside the corpus", path=path)
            expected = entry.tokens * TOKEN_BYTES[manifest.dtype]
            size = path.stat().st_size
            if size != expected:
                raise InputError(
                    "{path}: has {size} bytes, but the manifest lists {expected}",
                    path=path,
                    size=size,
                    expected=expected,
                )


def _read(path: Path) -> dict[str, Any]:
    content = read_object(path, LARGEST_FILE)
    if content is None:
        raise InputError("{path}: is damaged: it is not a JSON object", path=path)
    return content


def _manifest(content: dict[str, Any]) -> Manifest:
    splits = field_of(content, "splits", dict)
    dtype = field_of(content, "dtype", str)
    if dtype not in TOKEN_BYTES:
        raise ValueError("dtype")
    read = {name: tuple(shard_entry(each) for each in field_of(splits, name, list)) for name in SPLITS}
    files = [entry.file for entries in read.values() for entry in entries]
    if len(set(files)) < len(files):
        raise ValueError("file")
    return Manifest(
        name=field_of(content, "name", str),
        tokenizer=field_of(content, "tokenizer", str),
        tokenizer_hash=field_of(content, "tokenizer_hash", str),
        vocab_size=field_of(content, "vocab_size", int),
        dtype=cast(Dtype, dtype),
        complete=field_of(content, "complete", bool),
        **read,
    )


def shard_entry(content: Any) -> ShardEntry:
    """Parse a shard entry of a manifest. ValueError names the invalid field."""
    entry = ShardEntry(
        file=field_of(content, "file", str),
        tokens=field_of(content, "tokens", int),
        text_bytes=field_of(content, "text_bytes", int),
        sha256=field_of(content, "sha256", str),
        max_id=field_of(content, "max_id", int),
        documents=field_of(content, "documents", int),
    )
    if not re.fullmatch(r"[\w-][\w.-]{0,60}", entry.file):  # a plain name: no directory, no parent, not hidden
        raise ValueError("file")
    if not re.fullmatch(r"[0-9a-f]{64}", entry.sha256):
        raise ValueError("sha256")
    return entry


def field_of(content: Any, name: str, kind: type) -> Any:
    value: Any = content.get(name) if isinstance(content, dict) else None
    if type(value) is not kind or (isinstance(value, int) and not 0 <= value <= _LARGEST_NUMBER):
        raise ValueError(name)
    return value
