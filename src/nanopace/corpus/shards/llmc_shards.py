"""The corpus files of llm.c and modded-nanogpt: a header of 256 int32, of which three are used, then tokens.

    header[0]   20240520 for uint16 tokens (GPT-2), 20240801 for uint32 tokens (Llama 3)
    header[1]   the version: 1, and 7
    header[2]   the number of tokens

Shards are called NAME_train_000001.bin and NAME_val_000000.bin; a corpus of one file has no number.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from nanopace.corpus.shards.manifest import TOKEN_BYTES, Dtype
from nanopace.corpus.shards.token_files import Shard
from nanopace.errors import InputError

HEADER_BYTES: Final = 256 * 4
_KINDS: Mapping[tuple[int, int], Dtype] = {(20240520, 1): "uint16", (20240801, 7): "uint32"}
_MAGIC = frozenset(magic for magic, _ in _KINDS)


def has_header(path: Path) -> bool:
    """Whether a file begins like llm.c's. As raw GPT-2 tokens, these bytes would be an id that does not exist."""
    with path.open("rb") as file:
        start = file.read(4)
    return len(start) == 4 and int.from_bytes(start, "little") in _MAGIC


def headed_shard(path: Path) -> Shard:
    """A file with llm.c's header."""
    with path.open("rb") as file:
        header = file.read(HEADER_BYTES)
        size = file.seek(0, 2)
    if not header:
        raise InputError("{path}: is empty", path=path)
    if len(header) < HEADER_BYTES:
        raise InputError("{path}: has {size} bytes, less than an llm.c header", path=path, size=size)
    magic, version, tokens = struct.unpack_from("<3i", header)
    dtype = _KINDS.get((magic, version))
    if dtype is None:
        raise InputError(
            "{path}: starts with {magic}, version {version}: not a known token file",
            path=path,
            magic=magic,
            version=version,
        )
    expected = HEADER_BYTES + tokens * TOKEN_BYTES[dtype]
    if size != expected or tokens <= 0:
        raise InputError(
            "{path}: its header promises {tokens} tokens, or {expected} bytes, but it has {size}; download it again",
            path=path,
            tokens=tokens,
            expected=expected,
            size=size,
        )
    return Shard(path, tokens, dtype, HEADER_BYTES)
