"""Turns files into batches of text to encode: drops duplicates, and splits into train and val."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from nanopace.corpus.documents.pieces import Piece, pieces_of
from nanopace.corpus.documents.read import documents
from nanopace.corpus.prepare.dedup import DigestSet
from nanopace.corpus.prepare.provenance import Counts
from nanopace.corpus.prepare.recipe import Inputs
from nanopace.corpus.shards.manifest import SplitName

BATCH = 8 << 20  # bytes of text: enough pieces for every core
_MOST_PIECES = 20_000  # if documents are very short


@dataclass(frozen=True, slots=True)
class Batch:
    """Some pieces, in order."""

    pieces: list[tuple[SplitName, Piece]]  # without duplicates
    counts: Counts
    done: int  # bytes of all input files read so far


def all_pieces(inputs: Inputs) -> Iterator[tuple[int, Piece]]:
    """Every piece, with the bytes of all input files read so far."""
    before = 0
    for path, size in zip(inputs.files, inputs.sizes, strict=True):
        for document in documents(path, inputs.text_field):
            for piece in pieces_of(document, inputs.held_out):
                yield before + piece.at, piece
        before += size


def split_of(piece: Piece, inputs: Inputs) -> SplitName:
    """The split a document belongs to. Its hash decides, so it is the same in every corpus with that document."""
    held_out = piece.digest < inputs.val_fraction * 2**64 if piece.held_out is None else piece.held_out
    return "val" if held_out else "train"


def batches(inputs: Inputs) -> Iterator[Batch]:
    """The entire input, in the same order and the same batches every time."""
    known = DigestSet()
    is_duplicate = False
    for done, pieces in _groups(inputs):
        digests = np.array([piece.digest for piece in pieces if piece.begins], dtype=np.uint64)
        new = known.add(digests)
        is_new = iter(new.tolist())
        kept: list[tuple[SplitName, Piece]] = []
        for piece in pieces:
            if piece.begins:
                is_duplicate = not next(is_new)
            if not is_duplicate:
                kept.append((split_of(piece, inputs), piece))
        count = int(new.sum())
        yield Batch(kept, Counts(count, len(digests) - count, sum(piece.replaced for _, piece in kept)), done)


def _groups(inputs: Inputs) -> Iterator[tuple[int, list[Piece]]]:
    done, group, size = 0, list[Piece](), 0
    for done, piece in all_pieces(inputs):
        group.append(piece)
        size += piece.size
        if size >= BATCH or len(group) >= _MOST_PIECES:
            yield done, group
            group, size = [], 0
    if group:
        yield done, group
