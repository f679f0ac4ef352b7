"""nanoGPT's corpus: train.bin and val.bin, tokens without a header."""

from __future__ import annotations

from pathlib import Path

from nanopace.corpus.shards.token_files import Shard
from nanopace.errors import InputError


def raw_shard(path: Path) -> Shard:
    """A file that contains only uint16 tokens."""
    size = path.stat().st_size
    if size == 0:
        raise InputError("{path}: is empty", path=path)
    if size % 2:
        raise InputError(
            "{path}: has an odd number of bytes ({size}), so it does not hold uint16 tokens", path=path, size=size
        )
    return Shard(path, size // 2, "uint16")
