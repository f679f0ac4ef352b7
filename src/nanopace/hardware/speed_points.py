"""Speeds that were measured: by us or in logs that we read (measured.csv), and published by others (published.csv).

Both have one row per speed, with its source. Published ones that cannot be used have a reason in `left_out`: those
without a micro-batch, a shape or a card, and those that did something else than train on a card in the usual way.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping
from dataclasses import dataclass

from nanopace.hardware.cards import find_card
from nanopace.hardware.flops import Size
from nanopace.hardware.speed import Range, pace

_HERE = os.path.dirname(__file__)
_STEP_TOKENS = 524_288  # where the accumulation is not published: GPT-2's step, in which the update is a small part


@dataclass(frozen=True, slots=True)
class Point:
    """One measured speed, in tokens per second of one card."""

    card: str
    trainer: str
    n_layer: int
    n_embd: int
    vocab_size: int
    block_size: int
    batch_size: int
    accumulation: int
    tokens_per_s: float
    source: str
    steps: tuple[str, ...] = ()
    weights: float | None = None  # that are multiplied with, if not nanoGPT's
    fp8: bool = False
    left_out: str = ""  # why it is neither fitted nor judged

    @property
    def size(self) -> Size:
        return self.n_layer, self.n_embd, self.vocab_size, self.block_size


def pace_of(point: Point) -> Range | None:
    """The expected speed at a point."""
    return pace(
        find_card(point.card),
        point.size,
        point.batch_size,
        point.accumulation,
        trainer=point.trainer,
        steps=point.steps,
        weights=point.weights,
        fp8=point.fp8,
    )


def measured_points() -> list[Point]:
    """Our own, all of which the ranges have to contain.

    Two figures in docs/experiments/memory.md are left out: 350M with 4 sequences and 774M with one, launched kernel by
    kernel, where the host was the limit. `nanopace train` records CUDA graphs, and the figures with graphs are
    included.
    """
    return [_point({"vocab_size": "50304", "block_size": "1024", **row}) for row in _rows("measured.csv")]


def published_points() -> list[Point]:
    """Those of others, with the ones that are left out."""
    return [_point(row) for row in _rows("published.csv")]


def _rows(name: str) -> list[dict[str, str]]:
    with open(os.path.join(_HERE, name), encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _point(row: Mapping[str, str]) -> Point:
    batch_size, block_size = int(row["batch_size"] or 0), int(row["block_size"] or 0)
    assumed = max(1, _STEP_TOKENS // max(1, batch_size * block_size))
    return Point(
        card=row["card"],
        trainer=row["trainer"],
        n_layer=int(row["n_layer"] or 0),
        n_embd=int(row["n_embd"] or 0),
        vocab_size=int(row["vocab_size"]),
        block_size=block_size,
        batch_size=batch_size,
        accumulation=int(row["accumulation"] or assumed),
        tokens_per_s=float(row["tokens_per_s"]),
        source=row["source"],
        steps=tuple(row.get("ladder", "").split()),
        weights=float(row["weights"]) if row.get("weights") else None,
        fp8=row.get("precision") == "fp8",
        left_out=row.get("left_out", ""),
    )
