"""How a corpus is made from its files: what users can choose, and what follows from the files."""

from __future__ import annotations

import hashlib
import json
import math
import stat
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Final

from nanopace.corpus.documents.read import documents
from nanopace.errors import InputError, UsageError, unreadable

TOKENIZERS: Final = ("gpt2", "bytes", "chars", "bpe")
_LARGEST_VOCABULARY: Final = 1 << 20  # the training library allocates its memory first, and crashes without it
_VERSION: Final = 2  # of the path from files to tokens: a corpus started with another version is not resumed
_EARLIER: Final = 1  # when texts kept their \r
_VAL_BYTES: Final = 10_000_000  # enough validation text
_VAL_SHARE: Final = (0.0005, 0.1)  # what nanoGPT holds out from OpenWebText, and from Shakespeare
_FEWEST: Final = 10  # documents that validation should have


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """The user's choices, checked once."""

    name: str
    tokenizer: str = "gpt2"
    vocab_size: int | None = None  # of a tokenizer to be trained
    val_fraction: float | None = None  # None: depends on the size of the files
    shard_tokens: int = 100_000_000  # 200 MB: quick to check and to copy, and few enough to list
    text_field: str = "text"

    def __post_init__(self) -> None:
        if self.tokenizer not in TOKENIZERS:
            raise UsageError(
                "--tokenizer {value}: unknown; choose from {known}", value=self.tokenizer, known=", ".join(TOKENIZERS)
            )
        if (self.vocab_size is not None) != (self.tokenizer == "bpe"):
            raise UsageError("--vocab_size is only for --tokenizer bpe: the others have a fixed vocabulary")
        if self.vocab_size is not None and self.vocab_size > _LARGEST_VOCABULARY:
            raise UsageError(
                "--vocab_size must be at most {most}, not {value}", most=_LARGEST_VOCABULARY, value=self.vocab_size
            )
        if self.val_fraction is not None and not 0 < self.val_fraction < 1:
            raise UsageError("--val_fraction must be between 0 and 1, not {value}", value=self.val_fraction)
        if self.shard_tokens < 1:
            raise UsageError("--shard_tokens must be at least 1, not {value}", value=self.shard_tokens)


@dataclass(frozen=True, slots=True)
class Inputs:
    """The files of a corpus, and how validation text is taken from them."""

    files: tuple[Path, ...]
    sizes: tuple[int, ...]
    text_field: str
    val_fraction: float
    held_out: float | None  # the share at each document's end; None: whole documents, chosen by hash
    fingerprint: str
    earlier: str  # the fingerprint that an earlier version, which worked differently, gave the same input

    @property
    def total(self) -> int:
        return sum(self.sizes)

    def without_text(self) -> InputError:
        return InputError(
            "{path}: contains no text", path=self.files[0] if len(self.files) == 1 else self.files[0].parent
        )


def inputs_of(files: Sequence[Path], recipe: Recipe) -> Inputs:
    """Describe the files as they are now."""
    sizes, times = [], []
    for path in files:
        try:
            found = path.stat()
        except OSError as error:
            raise unreadable(path, error) from None
        if not stat.S_ISREG(found.st_mode):
            raise InputError("{path}: is not a regular file, and input is read more than once", path=path)
        sizes.append(found.st_size)
        times.append(found.st_mtime_ns)
    share = recipe.val_fraction
    if share is None:
        least, most = _VAL_SHARE
        share = min(most, max(least, _VAL_BYTES / max(1, sum(sizes))))
    held_out = share if _are_few(files, recipe.text_field, share) else None
    names = [str(path.resolve()) for path in files]
    content = [asdict(recipe), share, held_out, list(zip(names, sizes, times, strict=True))]
    now, earlier = (_hashed([version, *content]) for version in (_VERSION, _EARLIER))
    return Inputs(tuple(files), tuple(sizes), recipe.text_field, share, held_out, now, earlier)


def _hashed(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode(errors="surrogateescape")).hexdigest()


def _are_few(files: Sequence[Path], text_field: str, share: float) -> bool:
    """Whether there are so few documents that chance would decide what ends up in validation.

    If so, the end of each is held out instead. For a single book, such as nanoGPT's Shakespeare, there is no other way.
    """
    enough = math.ceil(min(_FEWEST / share, 1e15))  # documents: nobody has more than 1e15
    found = chain.from_iterable(documents(path, text_field) for path in files)
    return sum(1 for _ in islice(found, enough)) < enough
