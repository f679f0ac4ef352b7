"""Brings pieces of the host's memory to the card, one after the other, and what became of them back.

A few slots on the card hold one piece each. While the card computes with one, the next arrives in another, and the one
before leaves a third.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from nanopace.hardware.memory import HOST_SLOTS
from nanopace.train.host.arena import place
from nanopace.train.host.bus import Bus, Done


class Piece(NamedTuple):
    """Tensors at home on the host, and what to do with their copies on the card."""

    homes: tuple[Tensor, ...]
    use: Callable[..., None]
    changes: bool = True  # whether the copies have to go home

    @property
    def bytes(self) -> int:
        return sum(place(each.numel() * each.element_size()) for each in self.homes)


class Pipeline:
    def __init__(self, bus: Bus, largest: int) -> None:
        """`largest`: the bytes of the largest piece."""
        self._bus = bus
        self._slots = [torch.empty(largest, dtype=torch.uint8, device=bus.device) for _ in range(HOST_SLOTS)]

    def run(self, pieces: Iterable[Piece]) -> None:
        """Whatever is launched later finds everything at home."""
        bus = self._bus
        begin = bus.now()
        free: list[Done] = [begin] * HOST_SLOTS
        last: Done = None
        for number, piece in enumerate(pieces):
            slot = number % HOST_SLOTS
            copies = _views(self._slots[slot], piece.homes)
            bus.wait(bus.load([*zip(piece.homes, copies, strict=True)], free[slot]))
            piece.use(*copies)
            free[slot] = bus.now()
            if piece.changes:
                last = free[slot] = bus.store([*zip(copies, piece.homes, strict=True)], free[slot])
        bus.wait(last)


def _views(slot: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    views, at = [], 0
    for each in like:
        size = each.numel() * each.element_size()
        views.append(slot[at : at + size].view(each.dtype).view(each.shape))
        at += place(size)
    return views
