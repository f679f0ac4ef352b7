"""prepare.json: what a corpus is made from, so that prepare recognises its interrupted work."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Self

from nanopace.corpus.shards.manifest import LARGEST_FILE, field_of
from nanopace.errors import InputError
from nanopace.files import read_object, write_durably

PROVENANCE: Final = "prepare.json"


@dataclass(frozen=True, slots=True)
class Counts:
    """How many documents the input has, and what happened to them."""

    documents: int = 0  # that were kept
    duplicates: int = 0
    replaced: int = 0  # characters that replace bytes that are not UTF-8

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.documents + other.documents, self.duplicates + other.duplicates, self.replaced + other.replaced
        )

    @classmethod
    def of(cls, content: Any) -> Self:
        return cls(*(field_of(content, name, int) for name in ("documents", "duplicates", "replaced")))


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where the tokens come from. Version 0.1 wrote more fields, which are ignored."""

    fingerprint: str  # of the input and the settings
    tokenizer_hash: str
    counts: Counts = Counts()  # known once everything has been read

    def write(self, directory: Path) -> None:
        write_durably(directory / PROVENANCE, (json.dumps(asdict(self), indent=1) + "\n").encode())

    @classmethod
    def read(cls, directory: Path) -> Self | None:
        """Read what an earlier prepare wrote; None if there is nothing."""
        path = directory / PROVENANCE
        if not os.path.lexists(path):
            return None
        content = read_object(path, LARGEST_FILE)
        try:
            fingerprint, tokenizer_hash = (field_of(content, name, str) for name in ("fingerprint", "tokenizer_hash"))
            return cls(fingerprint, tokenizer_hash, Counts.of(field_of(content, "counts", dict)))
        except ValueError:
            raise damaged(path) from None


def damaged(path: Path) -> InputError:
    return InputError("{path}: is damaged; start over with --restart", path=path)
