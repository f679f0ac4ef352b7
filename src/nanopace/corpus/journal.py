"""prepare.json: how far a corpus is, written again and again while it is made.

Tokens are on the disk before the journal counts them, and names are given after it. So whenever a run is killed, what
the journal says is there, and the next run goes on from exactly that point.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final, Self

from nanopace.corpus.manifest import ShardEntry, SplitName
from nanopace.corpus.writing import OpenShard
from nanopace.errors import InputError
from nanopace.files import write_durably

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
        try:
            content = json.loads(path.read_bytes())
            return cls(
                fingerprint=str(content["fingerprint"]),
                tokenizer_hash=str(content["tokenizer_hash"]),
                place=_made(Place, content["place"]),
                counts=_made(Counts, content["counts"]),
                seen=int(content["seen"]),
                finished={
                    "train": tuple(_made(ShardEntry, each) for each in content["finished"]["train"]),
                    "val": tuple(_made(ShardEntry, each) for each in content["finished"]["val"]),
                },
                begun={
                    "train": _made(OpenShard, content["begun"]["train"]),
                    "val": _made(OpenShard, content["begun"]["val"]),
                },
            )
        except FileNotFoundError:
            return None
        except (KeyError, TypeError, ValueError, RecursionError):
            raise InputError("{path}: is damaged; start anew with --restart", path=path) from None


def _made(kind: Any, content: Any) -> Any:
    """One of the dataclasses above, if each of its fields is there with its type."""
    for each in fields(kind):
        if type(content[each.name]).__name__ != each.type:
            raise TypeError(each.name)
    return kind(**content)
