"""Separates several ranks that print to one log, by the prefix of their lines.

Launchers and clusters put a rank before each line, each in a different way: `[rank1]:`, `[default1]:`, `(rank 1)`,
`[GPU1]`, `node1:`, ` 1:`. A number before a row may also be anything else. It is a rank if nearly every row has one, it
has only a few values, and these print the same iterations.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise

from nanopace.sources.build import RunBuilder
from nanopace.sources.log_format import LogFormat
from nanopace.sources.processes.died import ENDED

LONGEST_PREFIX = 200  # characters before a row that may contain its rank
BEGINNING = 800  # characters of a line within which a row must begin
_MOST_ROWS = 2000  # to examine
_FEWEST_ROWS = 4
_NEARLY_ALL = 0.9  # of the rows

_STEP = re.compile(r"\b[sS]tep\s{0,8}\d", re.ASCII)
# The more reliable ones come first: a node may have several ranks.
_KINDS = tuple(
    re.compile(pattern, re.ASCII | re.IGNORECASE)
    for pattern in (
        *(
            rf"[\[(<]?\b(?:{word})[\s_:=#-]{{0,2}}(\d{{1,5}})\b(?:/\d{{1,5}})?[\])>]?[:,|]?\s?"
            for word in (
                r"(?:local_?|global_?)?rank",
                r"default|trainer|worker|proc(?:ess)?",
                r"gpu|cuda|device",
                r"node|host",
            )
        ),
        r"(?:^\s{0,8}|(?<=\s))(?:\[\d{1,5}\]:?|\d{1,5}:)(?=\s)\s",
    )
)
_NUMBER = re.compile(r"\d{1,5}", re.ASCII)
_OTHER_WORD = re.compile(r"(?<![A-Za-z])(?!(?:INFO|DEBUG|WARNING|ERROR)(?![A-Za-z]))[A-Za-z]{3,}")


class Ranks:
    """How a log writes its ranks, and which one is read: the first."""

    def __init__(self, kind: re.Pattern[str], rank: int, row: re.Pattern[str]) -> None:
        self._kind = kind
        self._row = row
        self.rank = rank

    def row_in(self, line: str) -> re.Match[str] | None:
        """Match the beginning of a row."""
        return self._row.search(line, 0, BEGINNING)

    def split(self, line: str) -> tuple[int | None, str]:
        """The rank that printed a line, and the line without its prefix; None if it has none."""
        row = self.row_in(line)
        found = self._kind.search(line, 0, row.start() if row else LONGEST_PREFIX)
        if found is None or (row is None and _OTHER_WORD.search(line, 0, found.start())):
            return None, line
        return _rank(found), line[: found.start()] + line[found.end() :]


def find_ranks(printed: Iterable[str], format: LogFormat) -> Ranks | None:
    """Examine the first lines of a log; None if it has one rank, or they cannot be separated."""
    rows: list[tuple[str, int]] = []
    row_start = re.compile(format.row_start, re.ASCII)
    for line in printed:
        if (row := row_start.search(line, 0, BEGINNING)) is not None:
            rows.append((line[: row.start()], int(row[1])))
            if len(rows) == _MOST_ROWS:
                break
    if len(rows) < _FEWEST_ROWS:
        return None
    for kind in _KINDS:
        found = [
            (_rank(rank), at) for prefix, at in rows if (rank := kind.search(prefix[-LONGEST_PREFIX:])) is not None
        ]
        if len(found) >= _NEARLY_ALL * len(rows) and _are_ranks(found):
            return Ranks(kind, min(rank for rank, _ in found), row_start)
    return None


def _are_ranks(rows: list[tuple[int, int]]) -> bool:
    """Few, not consecutive like epochs, and working on the same iterations."""
    counts = Counter(rank for rank, _ in rows)
    if len(counts) < 2 or 2 * len(counts) > len(rows):
        return False
    switches = sum(before != after for (before, _), (after, _) in pairwise(rows))
    together = Counter(at for _, at in {*rows})
    shared = sum(together[at] > 1 for _, at in rows)
    return switches >= len(counts) and 2 * shared >= len(rows)


def of_one_rank(printed: Iterable[tuple[str, bool]], ranks: Ranks, builder: RunBuilder) -> Iterator[tuple[str, bool]]:
    """The lines of the first rank, without its prefix. Of the others, only how they ended; their rows are counted."""
    begun = False
    for line, ended in printed:
        rank, rest = ranks.split(line)
        is_row = ranks.row_in(rest) is not None
        if rank is None or rank == ranks.rank:
            begun |= is_row
            yield rest, ended
        elif is_row:
            builder.row_of_rank(ranks.rank, rank)
        elif ENDED.search(rest) or not (begun or _STEP.search(rest)):
            yield rest, ended


def _rank(found: re.Match[str]) -> int:
    number = _NUMBER.search(found[0])
    assert number is not None
    return int(number[0])
