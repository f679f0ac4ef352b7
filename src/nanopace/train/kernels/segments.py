"""Adds rows that belong to the same token, always in the same order, so that the sum has the same bits in every run.

Atomic additions would happen in whatever order the card takes. Here a micro-batch's tokens are sorted once; equal ones
are then a segment. A frequent token's segment is long, so it is cut into pieces at every PIECE-th sorted position. One
program adds up each piece. A segment that is a single piece goes straight to the table; the others are joined piece by
piece (`join_pieces`).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

PIECE = 32  # sorted positions: rows that one program adds up, one after the other
_COLUMNS = 128  # of a program that joins pieces
_NOWHERE = tl.constexpr(-1)  # no token has this number


class SortedTokens(NamedTuple):
    """A micro-batch's tokens in ascending order, and the row of each; rows of equal tokens ascend."""

    tokens: Tensor
    rows: Tensor

    def __len__(self) -> int:
        return self.tokens.numel()


def sort_tokens(tokens: Tensor) -> SortedTokens:
    return SortedTokens(*torch.sort(tokens.flatten().int(), stable=True))


def empty_pieces(order: SortedTokens, width: int) -> Tensor:
    """Room for the sums of the pieces that are not whole segments: at most two for each PIECE sorted positions."""
    blocks = triton.cdiv(len(order), PIECE)
    return torch.empty((2 * blocks, width), device=order.tokens.device, dtype=torch.float32)


def join_pieces(order: SortedTokens, pieces: Tensor, d_table: Tensor) -> None:
    """Add the sums of all segments of several pieces to the table's gradient."""
    size = (len(pieces) // 2, triton.cdiv(d_table.size(1), _COLUMNS))
    _embed_join_pieces[size](
        order.tokens, pieces, d_table, len(order), d_table.size(1), PIECE=PIECE, COLUMNS=_COLUMNS, num_warps=1
    )


@triton.jit
def piece_at(position, tokens, count, PIECE: tl.constexpr):
    """The piece that begins at a sorted position: its token, how many rows it has (none if no piece begins here),
    whether it is a whole segment, and where its sum goes otherwise."""
    block = position // PIECE
    ahead = position + tl.arange(0, PIECE)
    token = tl.load(tokens + position)
    begins = tl.load(tokens + position - 1, position > 0, _NOWHERE) != token
    same = tl.load(tokens + ahead, ahead < tl.minimum((block + 1) * PIECE, count), _NOWHERE) == token
    length = tl.sum(same.to(tl.int32), 0)
    ends = tl.load(tokens + position + length, position + length < count, _NOWHERE) != token
    length = tl.where(begins | (position % PIECE == 0), length, 0)
    # A block's first piece may continue the block before, and its last one may continue in the next.
    slot = 2 * block + tl.where(position % PIECE == 0, 0, 1)
    return token.to(tl.int64), length, begins & ends, slot.to(tl.int64)


@triton.jit
def _embed_join_pieces(tokens, pieces, d_table, count, width, PIECE: tl.constexpr, COLUMNS: tl.constexpr):
    """One program per block of sorted positions: it joins the segment that begins there and does not end there."""
    block = tl.program_id(0)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < width
    first = block * PIECE
    following = first + PIECE
    token = tl.load(tokens + tl.minimum(following, count) - 1)
    begins = tl.load(tokens + first - 1, block > 0, _NOWHERE) != token
    slot = tl.where(tl.load(tokens + first) == token, 2 * block, 2 * block + 1).to(tl.int64)
    goes_on = begins & (tl.load(tokens + following, following < count, _NOWHERE) == token)
    if goes_on:
        total = tl.load(pieces + slot * width + column, inside, 0.0)
        while tl.load(tokens + following, following < count, _NOWHERE) == token:
            total += tl.load(pieces + (2 * (following // PIECE)).to(tl.int64) * width + column, inside, 0.0)
            following += PIECE
        at = d_table + token.to(tl.int64) * width + column
        tl.store(at, tl.load(at, inside, 0.0) + total, inside)
