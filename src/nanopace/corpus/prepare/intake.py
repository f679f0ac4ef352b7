"""From files to batches of text, ready to be encoded: duplicates are dropped here, and train is told from val."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from nanopace.corpus.documents.pieces import Piece, pieces_of
from nanopace.corpus.documents.read import documents
from nanopace.corpus.prepare.dedup import Digests, Seen
from nanopace.corpus.prepare.journal import Counts, Place
from nanopace.corpus.prepare.recipe import Inputs
from nanopace.corpus.shards.manifest import SplitName

BATCH = 8 << 20  # bytes of text: pieces for every core, and some seconds of work to lose at most
_MOST_PIECES = 20_000  # of very short documents


@dataclass(frozen=True, slots=True)
class Batch:
    """Some pieces in their order, and what is known once they are done."""

    pieces: list[tuple[SplitName, Piece]]  # without duplicates
    new: Digests  # of the documents that begin here
    counts: Counts  # of this batch
    place: Place  # after it
    done: int  # bytes of all input files up to there


def all_pieces(inputs: Inputs, start: Place) -> Iterator[tuple[Place, Piece]]:
    """Every piece from a place on, with the place behind it."""
    for file in range(start.file, len(inputs.files)):
        found = (
            piece
            for document in documents(inputs.files[file], inputs.text_field)
            for piece in pieces_of(document, inputs.held_out)
        )
        skipped = start.pieces if file == start.file else 0
        for number, piece in enumerate(islice(found, skipped, None), skipped + 1):
            yield Place(file, number), piece


def split_of(piece: Piece, inputs: Inputs) -> SplitName:
    """Where a document belongs. Its own hash decides, so that it is there in every corpus that has it."""
    held_out = piece.digest < inputs.val_fraction * 2**64 if piece.held_out is None else piece.held_out
    return "val" if held_out else "train"


def batches(inputs: Inputs, start: Place, seen: Seen) -> Iterator[Batch]:
    """The rest of the input, without what was seen before."""
    before = np.concatenate([[0], np.cumsum(inputs.sizes)])
    dropping = start.dropping
    for group in _groups(all_pieces(inputs, start)):
        digests = np.array([piece.digest for _, piece in group if piece.begins], dtype=np.uint64)
        new = seen.first_times(digests)
        is_new = iter(new.tolist())
        kept: list[tuple[SplitName, Piece]] = []
        for _, piece in group:
            if piece.begins:
                dropping = not next(is_new)
            if not dropping:
                kept.append((split_of(piece, inputs), piece))
        documents_kept = int(new.sum())
        place, last = group[-1]
        yield Batch(
            kept,
            digests[new],
            Counts(documents_kept, len(digests) - documents_kept, sum(piece.replaced for _, piece in kept)),
            Place(place.file, place.pieces, dropping),
            int(before[place.file]) + last.at,
        )


def _groups(found: Iterator[tuple[Place, Piece]]) -> Iterator[list[tuple[Place, Piece]]]:
    group: list[tuple[Place, Piece]] = []
    size = 0
    for each in found:
        group.append(each)
        size += each[1].size
        if size >= BATCH or len(group) >= _MOST_PIECES:
            yield group
            group, size = [], 0
    if group:
        yield group
