"""Text in, shards out: `nanopace prepare`, and the embedded corpus of a first `nanopace train`.

Documents are read in a fixed order, and the journal says how far that is done. So a run that was interrupted, by Ctrl-C
or a power cut, goes on where it was, and the files are the same to the byte as those of a run that never stopped.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from nanopace.compressed import DENSEST
from nanopace.corpus.download.named import CORPORA, EMBEDDED, python_files
from nanopace.corpus.prepare.choose_tokenizer import fitted
from nanopace.corpus.prepare.dedup import SEEN_FILE
from nanopace.corpus.prepare.encode import Encoded, Status, Told, Work
from nanopace.corpus.prepare.growing import damaged
from nanopace.corpus.prepare.journal import JOURNAL, Counts, Journal, Place
from nanopace.corpus.prepare.recipe import Inputs, Recipe, inputs_of
from nanopace.corpus.shards.corpus import find_corpus
from nanopace.corpus.shards.manifest import MANIFEST, SPLITS, SplitName, check_files, read_manifest
from nanopace.corpus.tokenizers.base import TOKENIZER_FILE
from nanopace.corpus.tokenizers.tokenizer import Tokenizer, load_tokenizer
from nanopace.errors import InputError, NanopaceError
from nanopace.files import make_directory

__all__ = ["Recipe", "Status", "Summary", "Told", "ensure", "prepare"]

_DESCRIPTIONS: Final = "|".join(map(re.escape, (MANIFEST, TOKENIZER_FILE, JOURNAL)))
_OURS: Final = re.compile(rf"(?:train|val)-\d{{5,}}\.bin(?:\.part)?|{_DESCRIPTIONS}|{re.escape(SEEN_FILE)}")
_LEFT_OVER: Final = re.compile(rf"\.(?:{_DESCRIPTIONS})\.\w+\.part")  # of a run that was killed while it wrote one

_HARMLESS: Final = 1 << 20  # documents that may be in anything


@dataclass(frozen=True, slots=True)
class Summary:
    """What there is in the end."""

    directory: Path
    tokens: dict[SplitName, int]
    text_bytes: int
    counts: Counts
    seconds: float  # of this run
    encoded: Encoded  # in this run
    resumed: bool  # it went on from another run, or was finished by one


def prepare(
    files: Sequence[Path], directory: Path, recipe: Recipe, *, restart: bool = False, told: Told | None = None
) -> Summary:
    """Make a corpus, or go on with one that was begun. With `restart`, what is there is thrown away first."""
    began = time.monotonic()
    inputs = inputs_of(files, recipe)
    try:
        made = make_directory(directory)
        with _alone_in(directory):
            _remove(directory, _LEFT_OVER)
            if restart:
                _remove(directory, _OURS)
            with _nothing_left(directory, made):
                return _prepare(inputs, directory, recipe, told or (lambda _: None), began)
    except OSError as error:
        raise InputError(
            "{path}: cannot be written: {reason}; mend that and run the same command again, and it goes on",
            path=error.filename or directory,
            reason=error.strerror or str(error),
        ) from None


def ensure(dataset: str, told: Told | None = None) -> Path:
    """The directory of a corpus. The embedded one is made if it is not there; nothing is ever downloaded."""
    try:
        found = find_corpus(dataset)
        begun = (found / MANIFEST).is_file() and not read_manifest(found).complete
    except InputError:
        if dataset != EMBEDDED:
            raise
        found, begun = Path("data", EMBEDDED), True
    if begun and dataset == EMBEDDED:
        known = CORPORA[EMBEDDED]
        recipe = Recipe(name=EMBEDDED, tokenizer=known.tokenizer, vocab_size=known.vocab_size)
        prepare(python_files(), found, recipe, restart=True, told=told)  # it takes seconds: no need to go on
    return found


def _prepare(inputs: Inputs, directory: Path, recipe: Recipe, told: Told, began: float) -> Summary:
    journal = _begun(directory, inputs)
    resumed = journal is not None
    if journal is None:
        tokenizer = fitted(recipe, inputs, lambda done: told(Status("tokenizer", done, inputs.total)))
        tokenizer.save(directory)
        journal = Journal.new(inputs.fingerprint, tokenizer.hash)
    else:
        tokenizer = _tokenizer_of(directory, journal)
        if _is_complete(directory):
            check_files(directory, read_manifest(directory))
            (directory / SEEN_FILE).unlink(missing_ok=True)  # of a run that was killed when all but this was done
            return _summary(directory, journal, began, Encoded(), resumed)
    with contextlib.closing(Work(directory, inputs, recipe, tokenizer, journal)) as work:
        encoded = work.run(told)
        lacking = work.lacking()
        if lacking is not None:
            _remove(
                directory, _OURS
            )  # or else other settings, which are what it needs, would meet what these have begun
            raise lacking
        journal = work.complete()
    return _summary(directory, journal, began, encoded, resumed)


def _summary(directory: Path, journal: Journal, began: float, encoded: Encoded, resumed: bool) -> Summary:
    return Summary(
        directory,
        {name: sum(entry.tokens for entry in journal.finished[name]) for name in SPLITS},
        sum(entry.text_bytes for name in SPLITS for entry in journal.finished[name]),
        journal.counts,
        time.monotonic() - began,
        encoded,
        resumed,
    )


# --- the directory ---------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _alone_in(directory: Path) -> Iterator[None]:
    """Keep a second `nanopace prepare` out of the directory, where the system has locks."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        with contextlib.suppress(ImportError):
            import fcntl

            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InputError("{path}: another nanopace prepare is at work there", path=directory) from None
            except OSError:
                pass  # a file system without locks
        yield
    finally:
        os.close(handle)


def _remove(directory: Path, names: re.Pattern[str]) -> None:
    """Remove files of ours, the manifest first, and nothing else."""
    for path in sorted(directory.iterdir(), key=lambda path: path.name != MANIFEST):
        if names.fullmatch(path.name):
            path.unlink()


@contextlib.contextmanager
def _nothing_left(directory: Path, made: Sequence[Path]) -> Iterator[None]:
    """A file that cannot be read, before anything was made of the others: there is nothing to go on with."""
    new = not any(directory.iterdir())
    try:
        yield
    except NanopaceError:
        journal = Journal.read(directory) if new else None
        if new and (journal is None or journal.place == Place()):
            _remove(directory, _OURS)
            with contextlib.suppress(OSError):  # something of somebody else's is in it
                for each in made:
                    each.rmdir()
        raise


def _begun(directory: Path, inputs: Inputs) -> Journal | None:
    """The journal of the same work, as far as it is done."""
    journal = Journal.read(directory)
    if journal is None:
        for name in (MANIFEST, "train.bin", "val.bin"):
            if os.path.lexists(directory / name):
                raise InputError("{path}: holds another corpus ({name}); give another --out", path=directory, name=name)
    elif journal.fingerprint == inputs.earlier:  # what is finished stays as it is: somebody may be training on it
        if not _is_complete(directory):
            raise InputError(
                "{path}: was begun by an earlier nanopace, which read line ends in another way; "
                "start anew with --restart, or give another --out",
                path=directory,
            )
    elif journal.fingerprint != inputs.fingerprint:
        raise InputError(
            "{path}: holds a corpus of other files or settings; take those, or --restart, or another --out",
            path=directory,
        )
    if journal is not None and journal.seen > _HARMLESS + DENSEST * inputs.total:
        raise damaged(directory / JOURNAL)  # there cannot be so many documents, and each takes memory
    return journal


def _is_complete(directory: Path) -> bool:
    return os.path.lexists(directory / MANIFEST) and read_manifest(directory).complete


def _tokenizer_of(directory: Path, journal: Journal) -> Tokenizer:
    tokenizer = load_tokenizer(directory)
    if tokenizer is None or tokenizer.hash != journal.tokenizer_hash:
        raise damaged(directory / TOKENIZER_FILE)
    return tokenizer
