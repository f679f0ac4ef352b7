"""Turns text into shards: `nanopace prepare`, and the embedded corpus for a first `nanopace train`.

Documents are read in a fixed order, and the manifest lists the finished shards. If a prepare was interrupted, by Ctrl-C
or a power cut, the next one reads the input again and encodes what is not in a finished shard. The resulting files are
identical to those of an uninterrupted run, byte for byte.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from nanopace.corpus.download.named import CORPORA, EMBEDDED, python_files
from nanopace.corpus.prepare.choose_tokenizer import fitted
from nanopace.corpus.prepare.encode import CorpusWriter, Encoded, OnProgress, Status
from nanopace.corpus.prepare.provenance import PROVENANCE, Counts, Provenance, damaged
from nanopace.corpus.prepare.recipe import Inputs, Recipe, inputs_of
from nanopace.corpus.shards.corpus import find_corpus
from nanopace.corpus.shards.manifest import (
    MANIFEST,
    SPLITS,
    Manifest,
    SplitName,
    check_files,
    read_manifest,
    smallest_dtype,
)
from nanopace.corpus.tokenizers.base import TOKENIZER_FILE
from nanopace.corpus.tokenizers.tokenizer import Tokenizer, load_tokenizer
from nanopace.errors import InputError, NanopaceError, reason_of
from nanopace.files import make_directory
from nanopace.spelling import nearest

__all__ = ["OnProgress", "Recipe", "Status", "Summary", "ensure", "prepare"]

_DESCRIPTIONS: Final = "|".join(map(re.escape, (MANIFEST, TOKENIZER_FILE, PROVENANCE)))
_SHARD: Final = r"(?:train|val)-\d{5,}\.bin"
_UNFINISHED: Final = re.compile(rf"{_SHARD}\.part|seen\.bin")  # the latter is from nanopace 0.1
_OURS: Final = re.compile(rf"{_SHARD}|{_DESCRIPTIONS}|{_UNFINISHED.pattern}")
_TEMPORARY: Final = re.compile(rf"\.(?:{_DESCRIPTIONS})\.\w+\.part")  # left by a process killed while writing one


@dataclass(frozen=True, slots=True)
class Summary:
    """What was prepared."""

    directory: Path
    tokens: dict[SplitName, int]
    text_bytes: int
    counts: Counts
    seconds: float  # of this run
    encoded: Encoded  # in this run
    resumed: bool  # it continued another run's work, or found it finished


def prepare(
    files: Sequence[Path],
    directory: Path,
    recipe: Recipe,
    *,
    restart: bool = False,
    on_progress: OnProgress | None = None,
) -> Summary:
    """Create a corpus, or continue an unfinished one. With `restart`, delete what is there first."""
    began = time.monotonic()
    inputs = inputs_of(files, recipe)
    try:
        made = make_directory(directory)
        with _alone_in(directory):
            _remove(directory, _TEMPORARY)
            if restart:
                _remove(directory, _OURS)
            with _nothing_left(directory, made):
                return _prepare(inputs, directory, recipe, on_progress or (lambda _: None), began)
    except OSError as error:
        raise InputError(
            "{path}: cannot be written: {reason}; fix that and run the same command again to continue",
            path=error.filename or directory,
            reason=reason_of(error),
        ) from None


def ensure(dataset: str, on_progress: OnProgress | None = None) -> Path:
    """The directory of a corpus. The embedded one is created if it is missing; nothing is ever downloaded."""
    try:
        found = find_corpus(dataset)
        begun = (found / MANIFEST).is_file() and not read_manifest(found).complete
    except InputError:
        if dataset != EMBEDDED:
            if dataset in CORPORA:
                raise InputError(
                    "{dataset}: no such corpus; create it with: nanopace prepare {dataset}", dataset=dataset
                ) from None
            near = nearest(dataset, {*CORPORA, *(path.name for path in Path("data").glob("*/"))} - {dataset})
            if near is None:
                raise
            raise InputError("{dataset}: no such corpus; did you mean {near}?", dataset=dataset, near=near) from None
        found, begun = Path("data", EMBEDDED), True
    if begun and dataset == EMBEDDED:
        known = CORPORA[EMBEDDED]
        recipe = Recipe(name=EMBEDDED, tokenizer=known.tokenizer, vocab_size=known.vocab_size)
        prepare(
            python_files(), found, recipe, restart=True, on_progress=on_progress
        )  # this takes seconds, so there is no need to resume
    return found


def _prepare(inputs: Inputs, directory: Path, recipe: Recipe, on_progress: OnProgress, began: float) -> Summary:
    provenance = _begun(directory, inputs)
    resumed = provenance is not None
    if provenance is None:
        tokenizer = fitted(recipe, inputs, lambda done: on_progress(Status("tokenizer", done, inputs.total)))
        tokenizer.save(directory)
        provenance = Provenance(inputs.fingerprint, tokenizer.hash)
        provenance.write(directory)
    else:
        tokenizer = _tokenizer_of(directory, provenance)
        _remove(directory, _UNFINISHED)
    manifest = _manifest(directory) or _new_manifest(recipe, tokenizer)
    check_files(directory, manifest)
    encoded = Encoded()
    if not manifest.complete:
        with contextlib.closing(CorpusWriter(directory, inputs, recipe, tokenizer, manifest)) as writer:
            encoded = writer.run(on_progress)
            missing = writer.missing()
            if missing is not None:
                _remove(directory, _OURS)  # otherwise, prepare would refuse the different settings it needs
                raise missing
            provenance = replace(provenance, counts=writer.counts)
            provenance.write(directory)
            writer.complete()
            manifest = writer.manifest
    entries = {name: manifest.split(name) for name in SPLITS}
    return Summary(
        directory,
        {name: sum(entry.tokens for entry in entries[name]) for name in SPLITS},
        sum(entry.text_bytes for name in SPLITS for entry in entries[name]),
        provenance.counts,
        time.monotonic() - began,
        encoded,
        resumed,
    )


def _new_manifest(recipe: Recipe, tokenizer: Tokenizer) -> Manifest:
    return Manifest(
        name=recipe.name,
        tokenizer=tokenizer.kind,
        tokenizer_hash=tokenizer.hash,
        vocab_size=tokenizer.vocab_size,
        dtype=smallest_dtype(tokenizer.vocab_size),
        train=(),
        val=(),
        complete=False,
    )


# --- the directory ---------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _alone_in(directory: Path) -> Iterator[None]:
    """Keep a second `nanopace prepare` out of the directory, if the system has locks."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        with contextlib.suppress(ImportError):
            import fcntl

            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InputError("{path}: another nanopace prepare is running there", path=directory) from None
            except OSError:
                pass  # a file system without locks
        yield
    finally:
        os.close(handle)


def _remove(directory: Path, names: re.Pattern[str]) -> None:
    """Remove our files, the manifest first, and nothing else."""
    for path in sorted(directory.iterdir(), key=lambda path: path.name != MANIFEST):
        if names.fullmatch(path.name):
            path.unlink()


@contextlib.contextmanager
def _nothing_left(directory: Path, made: Sequence[Path]) -> Iterator[None]:
    """Remove what was created if an error occurs before the first finished shard: there is nothing to resume."""
    new = not any(directory.iterdir())
    try:
        yield
    except NanopaceError:
        manifest = _manifest(directory) if new else None
        if new and (manifest is None or not (manifest.train or manifest.val)):
            _remove(directory, _OURS)
            with contextlib.suppress(OSError):  # it contains someone else's files
                for each in made:
                    each.rmdir()
        raise


def _begun(directory: Path, inputs: Inputs) -> Provenance | None:
    """The provenance of the same work, started earlier; None if there is none."""
    provenance = Provenance.read(directory)
    if provenance is None:
        for name in (MANIFEST, "train.bin", "val.bin"):
            if os.path.lexists(directory / name):
                raise InputError(
                    "{path}: contains another corpus ({name}); choose another --out", path=directory, name=name
                )
    elif provenance.fingerprint == inputs.earlier:  # keep what is finished: someone may be training on it
        manifest = _manifest(directory)
        if manifest is None or not manifest.complete:
            raise InputError(
                "{path}: was started by an older nanopace, which read line endings differently; start over with "
                "--restart, or choose another --out",
                path=directory,
            )
    elif provenance.fingerprint != inputs.fingerprint:
        raise InputError(
            "{path}: contains a corpus made from other files or settings; use those, or --restart, or another --out",
            path=directory,
        )
    return provenance


def _manifest(directory: Path) -> Manifest | None:
    return read_manifest(directory) if os.path.lexists(directory / MANIFEST) else None


def _tokenizer_of(directory: Path, provenance: Provenance) -> Tokenizer:
    tokenizer = load_tokenizer(directory)
    if tokenizer is None or tokenizer.hash != provenance.tokenizer_hash:
        raise damaged(directory / TOKENIZER_FILE)
    return tokenizer
