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


class Home(NamedTuple):
    """A tensor in the host's memory, and whether its copy on the card comes from there and goes back."""

    tensor: Tensor
    load: bool = True
    store: bool = True


class Piece(NamedTuple):
    homes: Sequence[Home]
    use: Callable[..., None]  # with their copies on the card

    @property
    def bytes(self) -> int:
        return sum(place(each.tensor.nbytes) for each in self.homes)


class Pipeline:
    def __init__(self, bus: Bus, largest: int) -> None:
        """`largest`: the bytes of the largest piece."""
        self._bus = bus
        self._slots = [torch.empty(largest, dtype=torch.uint8, device=bus.device) for _ in range(HOST_SLOTS)]

    def run(self, pieces: Iterable[Piece]) -> None:
        """Whatever is launched later finds everything at home."""
        bus = self._bus
        free: list[Done] = [bus.now()] * HOST_SLOTS
        last: Done = None
        for number, piece in enumerate(pieces):
            slot = number % HOST_SLOTS
            copies = views(self._slots[slot], [home.tensor for home in piece.homes])
            pairs = [*zip(piece.homes, copies, strict=True)]
            bus.wait(bus.load([(home.tensor, copy) for home, copy in pairs if home.load], free[slot]))
            piece.use(*copies)
            free[slot] = bus.now()
            if stores := [(copy, home.tensor) for home, copy in pairs if home.store]:
                last = free[slot] = bus.store(stores, free[slot])
        bus.wait(last)


def views(slot: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    """Parts of a slot in the form of these tensors, one behind the other."""
    found, at = [], 0
    for each in like:
        found.append(slot[at : at + each.nbytes].view(each.dtype).view(each.shape))
        at += place(each.nbytes)
    return found
