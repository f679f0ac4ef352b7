"""A corpus on disk, ready to train on, in nanopace's, nanoGPT's or llm.c's format."""

from __future__ import annotations

import hashlib
import os
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from nanopace.corpus.shards.llmc_shards import has_header, headed_shard
from nanopace.corpus.shards.manifest import (
    MANIFEST,
    SPLITS,
    TOKEN_BYTES,
    Dtype,
    ShardEntry,
    SplitName,
    check_files,
    read_manifest,
)
from nanopace.corpus.shards.nanogpt_bins import raw_shard
from nanopace.corpus.shards.scan import first_beyond
from nanopace.corpus.shards.token_files import Shard, Split
from nanopace.corpus.tokenizers.nanogpt_meta import META_FILE, read_meta
from nanopace.corpus.tokenizers.tokenizer import Tokenizer, load_tokenizer
from nanopace.errors import InputError, unreadable

__all__ = ["Corpus", "Shard", "Split", "find_corpus", "open_corpus"]

Format = Literal["nanopace", "nanogpt", "llmc"]

_SHARD_NAME = re.compile(r"(?:(?P<corpus>.+)_)?(?P<split>train|val)(?:_\d+)?\.bin")


@dataclass(frozen=True, slots=True)
class Corpus:
    """Training and validation tokens, and what is known about them."""

    name: str
    directory: Path
    train: Split
    val: Split
    vocab_size: int | None
    tokenizer: Tokenizer | None
    format: Format

    @property
    def fingerprint(self) -> str:
        """A hash that identifies the data: from names, sizes, and hashes or samples of the contents."""
        digest = hashlib.sha256()
        for split in (self.train, self.val):
            for shard, fingerprint in split.files:
                digest.update(f"{shard.path.name}\0{shard.tokens}\0{shard.dtype}\0".encode())
                digest.update(shard.sha256.encode() if shard.sha256 else fingerprint.sample)
            digest.update(b"\1")
        return digest.hexdigest()

    @property
    def hashes(self) -> dict[str, str]:
        """The known hashes of files that no manifest lists, if they have been read completely."""
        files = (*self.train.files, *self.val.files)
        known = {shard.path.name: fingerprint.known for shard, fingerprint in files if shard.sha256 is None}
        return {name: sha256 for name, sha256 in known.items() if sha256 is not None}

    def expect(self, hashes: Mapping[str, str]) -> None:
        """Require the files that an earlier process has read. Small splits are verified now, large ones in training."""
        for shard, fingerprint in (*self.train.files, *self.val.files):
            if shard.path.name in hashes:
                fingerprint.expect(hashes[shard.path.name])
        for split in (self.train, self.val):
            if split.is_small:
                split.verify(lambda: False)

    def check(self, vocab_size: int, block_size: int) -> None:
        """Check everything that could otherwise stop a training after it has started."""
        for name, split in zip(SPLITS, (self.train, self.val), strict=True):
            longest = max(shard.tokens for shard in split.shards)
            if longest <= block_size:
                raise InputError(
                    "{path}: too few {split} tokens: {tokens} in a row, but block_size = {block_size} needs one more "
                    "than that",
                    path=self.directory,
                    split=name,
                    tokens=longest,
                    block_size=block_size,
                )
            for shard in split.shards:
                _check_ids(shard, vocab_size)
            split.vocab_size = vocab_size


def find_corpus(dataset: str) -> Path:
    """The directory that the knob `dataset` means: a path, or a name under data/ as in nanoGPT."""
    for directory in (Path(dataset), Path("data", dataset)):
        if (directory / MANIFEST).is_file() or _token_files(directory):
            return directory
    raise InputError(
        "{dataset}: no such corpus; create one from your own text with: nanopace prepare {file}",
        dataset=dataset,
        file=dataset if Path(dataset).exists() else "FILE",
    )


def open_corpus(directory: Path) -> Corpus:
    """Open the corpus in a directory, whatever its format, and check the sizes of its files."""
    try:
        if os.path.lexists(directory / MANIFEST):
            return _open_own(directory)
        return _open_foreign(directory)
    except OSError as error:
        raise unreadable(error.filename or directory, error) from None


def _open_own(directory: Path) -> Corpus:
    manifest = read_manifest(directory)
    if not manifest.complete:
        raise InputError("{path}: is not finished; run nanopace prepare again to continue", path=directory)
    check_files(directory, manifest)
    tokenizer = load_tokenizer(directory)
    known = (manifest.tokenizer_hash, manifest.vocab_size)
    if tokenizer is None or (tokenizer.hash, tokenizer.vocab_size) != known:
        raise InputError("{path}: its tokenizer.json is not the one that made these tokens", path=directory)
    train, val = (
        _split(directory, name, [_listed(directory, entry, manifest.dtype) for entry in manifest.split(name)])
        for name in SPLITS
    )
    return Corpus(manifest.name, directory, train, val, manifest.vocab_size, tokenizer, "nanopace")


def _listed(directory: Path, entry: ShardEntry, dtype: Dtype) -> Shard:
    return Shard(directory / entry.file, entry.tokens, dtype, 0, entry.sha256, entry.max_id)


def _open_foreign(directory: Path) -> Corpus:
    name, files = _one_corpus(directory)
    headed = name != "" or any(has_header(path) for paths in files.values() for path in paths)
    shard = headed_shard if headed else raw_shard
    train, val = (_split(directory, split, [shard(path) for path in files[split]]) for split in SPLITS)
    tokenizer = load_tokenizer(directory)
    return Corpus(
        name or directory.resolve().name,
        directory,
        train,
        val,
        tokenizer.vocab_size if tokenizer else _vocab_size(directory / META_FILE),
        tokenizer,
        "llmc" if headed else "nanogpt",
    )


def _vocab_size(meta: Path) -> int | None:
    """nanoGPT's meta.pkl may contain just a number: the entries are then not characters."""
    return read_meta(meta).vocab_size if os.path.lexists(meta) else None


def _one_corpus(directory: Path) -> tuple[str, dict[SplitName, list[Path]]]:
    """The name before train and val, and the files of each split. train.bin and val.bin, without one, come first."""
    found: dict[str, dict[SplitName, list[Path]]] = defaultdict(lambda: {"train": [], "val": []})
    for path, named in _token_files(directory):
        split: SplitName = "train" if named["split"] == "train" else "val"
        found[named["corpus"] or ""][split].append(path)
    if "" in found:
        return "", found[""]
    if not found:
        raise InputError("{path}: contains no corpus; create one with: nanopace prepare", path=directory)
    if len(found) > 1:
        raise InputError(
            "{path}: contains several corpora ({names}); give each its own directory",
            path=directory,
            names=", ".join(sorted(found)),
        )
    return found.popitem()


def _token_files(directory: Path) -> list[tuple[Path, re.Match[str]]]:
    """The files named as in nanoGPT and llm.c, sorted by name."""
    named = ((path, _SHARD_NAME.fullmatch(path.name)) for path in sorted(directory.glob("*.bin")) if path.is_file())
    return [(path, match) for path, match in named if match]


def _split(directory: Path, name: SplitName, shards: list[Shard]) -> Split:
    if not shards or not any(shard.tokens for shard in shards):
        raise InputError("{path}: has no {split} tokens", path=directory, split=name)
    split = Split((shard for shard in shards if shard.tokens), verify=name == "val")
    split.take_fingerprints()
    return split


def _check_ids(shard: Shard, vocab_size: int) -> None:
    largest = shard.max_id if shard.max_id is not None else (1 << 8 * TOKEN_BYTES[shard.dtype]) - 1
    beyond = first_beyond(shard, vocab_size) if largest >= vocab_size else None
    if beyond is not None:
        raise InputError(
            "{path}: token {position} is {id}, but the model's vocabulary ends at {last}; set vocab_size",
            path=shard.path,
            position=beyond[0],
            id=beyond[1],
            last=vocab_size - 1,
        )
