"""prepare.json: how far a corpus is, written again and again while it is made.

Tokens are on the disk before the journal counts them, and names are given after it. So whenever a run is killed, what
the journal says is there, and the next run goes on from exactly that point.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final, Self

from nanopace.corpus.prepare.growing import damaged
from nanopace.corpus.prepare.shard_writer import OpenShard
from nanopace.corpus.shards.manifest import (
    LARGEST_FILE,
    SPLITS,
    ShardEntry,
    SplitName,
    field_of,
    shard_entry,
    shard_name,
)
from nanopace.files import read_object, write_durably

JOURNAL: Final = "prepare.json"


@dataclass(frozen=True, slots=True)
class Counts:
    """Of the input so far."""

    documents: int = 0  # that are kept
    duplicates: int = 0
    replaced: int = 0  # characters that stand for bytes that are not UTF-8


@dataclass(frozen=True, slots=True)
class Place:
    """In the input, between two pieces."""

    file: int = 0  # its number
    pieces: int = 0  # of this file that are done
    dropping: bool = False  # the rest of a duplicate comes next


@dataclass(frozen=True, slots=True, kw_only=True)
class Journal:
    """All that a run needs to go on."""

    fingerprint: str  # of the input and the settings
    tokenizer_hash: str
    place: Place
    counts: Counts
    seen: int  # digests that are known
    finished: dict[SplitName, tuple[ShardEntry, ...]]
    begun: dict[SplitName, OpenShard]

    @classmethod
    def new(cls, fingerprint: str, tokenizer_hash: str) -> Self:
        return cls(
            fingerprint=fingerprint,
            tokenizer_hash=tokenizer_hash,
            place=Place(),
            counts=Counts(),
            seen=0,
            finished={"train": (), "val": ()},
            begun={"train": OpenShard(), "val": OpenShard()},
        )

    def write(self, directory: Path) -> None:
        write_durably(directory / JOURNAL, (json.dumps(asdict(self), indent=1) + "\n").encode())

    @classmethod
    def read(cls, directory: Path) -> Self | None:
        """None where nothing was begun."""
        path = directory / JOURNAL
        if not os.path.lexists(path):
            return None
        content = read_object(path, LARGEST_FILE)
        try:
            if content is None:
                raise ValueError(JOURNAL)
            return cls(
                fingerprint=field_of(content, "fingerprint", str),
                tokenizer_hash=field_of(content, "tokenizer_hash", str),
                place=_made(Place, content["place"]),
                counts=_made(Counts, content["counts"]),
                seen=field_of(content, "seen", int),
                finished={name: _finished(name, content["finished"][name]) for name in SPLITS},
                begun={name: _made(OpenShard, content["begun"][name]) for name in SPLITS},
            )
        except (KeyError, TypeError, ValueError):
            raise damaged(path) from None


def _finished(split: SplitName, content: Any) -> tuple[ShardEntry, ...]:
    entries = tuple(shard_entry(each) for each in content)
    if [entry.file for entry in entries] != [shard_name(split, number) for number in range(len(entries))]:
        raise ValueError("file")  # files are renamed and removed by these names
    return entries


def _made(kind: Any, content: Any) -> Any:
    """One of the dataclasses above, if its fields and no others are there, each with its type."""
    types = {each.name: bool if each.type == "bool" else int for each in fields(kind)}
    if not isinstance(content, dict) or content.keys() != types.keys():
        raise ValueError(kind.__name__)
    return kind(**{name: field_of(content, name, of) for name, of in types.items()})
