"""Brings what a layer computes with from the host's memory when it is its turn, and takes it home afterwards.

While one layer computes, the next one's matrices and gradients arrive, and the last one's gradients leave. Gradients
are added to where they are, so each micro-batch brings them and takes them home: 4 bytes per weight each way. Matrices
come in bfloat16, once for the forward and once for the backward pass. Of what the backward pass needs from the forward
pass, only the outputs of the norms are kept (all else is recomputed), and they go the same way.

Every wait is in the order of the card's streams; the host is far ahead, and must not free what is still being copied.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from nanopace.hardware.memory import HOST_SLOTS
from nanopace.train.host.arena import Arena, place
from nanopace.train.host.bus import Bus, Done
from nanopace.train.host.pipeline import views

if TYPE_CHECKING:
    from nanopace.train.fused.model import Activations, Fused, Layer

_BEHIND = 2  # layers whose activations may still be leaving


class Shelf:
    """Some tensors of each layer: at home in the host's memory, and in a few slots on the card when they are needed."""

    def __init__(self, bus: Bus, arena: Arena, like: Sequence[Tensor], layers: int, slots: int) -> None:
        size = sum(place(each.nbytes) for each in like)
        self._bus, self._like = bus, [torch.empty_like(each, device="meta") for each in like]
        flat = torch.empty(size, dtype=torch.uint8, device="meta")
        self._homes = [arena.empty(flat) for _ in range(layers)]
        self._slots = [torch.empty(size, dtype=torch.uint8, device=bus.device) for _ in range(slots)]
        self._inside: list[int | None] = [None] * slots
        self._ready: list[Done] = [None] * slots
        self._free: list[Done] = [None] * slots
        self._home: list[Done] = [None] * layers  # when a layer's are at home again

    def homes(self, layer: int) -> list[Tensor]:
        return views(self._homes[layer], self._like)

    def fetch(self, layer: int, *, using: int | None = None, zero: bool = False) -> None:
        """Let a layer's arrive, or zeros instead, unless they are there. Not in the place of the one in use."""
        if layer in self._inside:
            return
        slot = next(each for each, inside in enumerate(self._inside) if using is None or inside != using)
        for each in (self._slots, self._inside, self._ready, self._free):
            each.append(each.pop(slot))  # type: ignore[arg-type]  # the next one takes the oldest slot
        self._inside[-1] = layer
        if zero:
            self._bus.wait(self._free[-1])
            self._slots[-1].zero_()
            self._ready[-1] = None
        else:
            self._ready[-1] = self._bus.load([(self._homes[layer], self._slots[-1])], self._free[-1], self._home[layer])

    def use(self, layer: int) -> list[Tensor]:
        """A layer's tensors on the card."""
        slot = self._inside.index(layer)
        self._bus.wait(self._ready[slot])
        self._ready[slot] = None
        return views(self._slots[slot], self._like)

    def done(self, layer: int, *, store: bool) -> None:
        """The card needs them no longer. With `store` they have changed, and go home."""
        slot = self._inside.index(layer)
        self._free[slot] = self._bus.now()
        if store:
            self._free[slot] = self._home[layer] = self._bus.store(
                [(self._slots[slot], self._homes[layer])], self._free[slot]
            )
            self._inside[slot] = None

    def settle(self) -> None:
        """Whatever is launched later finds everything at home, and nothing in the slots. What is fetched later comes
        after that."""
        for each in (*self._home, *self._ready):
            self._bus.wait(each)
        self._home, self._ready = [None] * len(self._home), [None] * len(self._ready)
        self._inside = [None] * len(self._inside)
        self._free = [self._bus.now()] * len(self._free)


class LayerStream:
    """Around each layer's forward and backward pass."""

    def __init__(
        self, bus: Bus, arena: Arena, layers: Sequence[Layer], steps: Collection[str], activations: Tensor
    ) -> None:
        """`activations`: in the form of one norm's output of the largest micro-batch."""
        self._bus, self._layers, self.arena = bus, layers, arena
        matrices, count = layers[0].matrices, len(layers)
        self.weights: Shelf | None = None
        self.gradients: Shelf | None = None
        self._activations: list[list[Tensor]] | None = None
        if "host_weights" in steps:
            self.weights = Shelf(bus, arena, [each.copy for each in matrices], count, HOST_SLOTS - 1)
        if "host_gradients" in steps:
            self.gradients = Shelf(bus, arena, [each.gradient for each in matrices], count, HOST_SLOTS)
        if "host_activations" in steps:
            flat = activations.view(-1)
            self._activations = [[arena.empty(flat) for _ in range(2)] for _ in layers]
        self._zero = True
        self._leaving: list[tuple[Done, Activations]] = []
        self._arriving: dict[int, tuple[Done, list[Tensor]]] = {}

    def zero_grad(self) -> None:
        """The next micro-batch is a step's first. Nothing is left of one that did not end."""
        self._zero = True
        if self.gradients is not None:
            self.gradients.settle()
        self._let_go(0)
        for done, _ in self._arriving.values():
            self._bus.wait(done)
        self._arriving.clear()

    def settle(self) -> None:
        """Whatever is launched later finds everything at home, and is itself waited for."""
        for each in (self.weights, self.gradients):
            if each is not None:
                each.settle()

    def before_forward(self, number: int) -> None:
        if self.weights is not None:
            self._bring_weights(self.weights, number, number + 1)

    def after_forward(self, number: int) -> None:
        if self.weights is not None:
            self.weights.done(number, store=False)

    def stash(self, number: int, saved: Activations) -> Activations:
        """What is left of a layer's activations on the card."""
        if self._activations is None:
            return saved
        both = saved.y_1, saved.y_2
        copies = [
            (each.view(-1), home[: each.numel()]) for each, home in zip(both, self._activations[number], strict=True)
        ]
        self._leaving.append((self._bus.store(copies, self._bus.now()), saved))  # until they have left
        self._let_go(_BEHIND)
        y_1, y_2 = (torch.empty_like(each, device="meta") for each in both)
        return saved._replace(y_1=y_1, y_2=y_2)

    def before_backward(self, number: int, saved: Activations) -> Activations:
        if self.weights is not None:
            self._bring_weights(self.weights, number, number - 1)
        if self.gradients is not None:
            self.gradients.fetch(number, zero=self._zero)
            for matrix, gradient in zip(self._layers[number].matrices, self.gradients.use(number), strict=True):
                matrix.gradient = gradient
            if number and not self._zero:
                self.gradients.fetch(number - 1, using=number)
        return saved if self._activations is None else self._bring_activations(self._activations, number, saved)

    def after_backward(self, number: int) -> None:
        if self.weights is not None:
            self.weights.done(number, store=False)
        if self.gradients is not None:
            self.gradients.done(number, store=True)
        if number == 0:
            self._zero = False

    def _bring_weights(self, weights: Shelf, number: int, following: int) -> None:
        weights.fetch(number)
        for matrix, copy in zip(self._layers[number].matrices, weights.use(number), strict=True):
            matrix.copy = copy
        if 0 <= following < len(self._layers):
            weights.fetch(following, using=number)

    def _bring_activations(self, homes: list[list[Tensor]], number: int, saved: Activations) -> Activations:
        self._let_go(0)  # so that all are at home
        for each in (number, number - 1)[: number + 1]:
            if each not in self._arriving:
                into = [torch.empty_like(like, device=self._bus.device) for like in (saved.y_1, saved.y_2)]
                copies = [(home[: y.numel()], y.view(-1)) for home, y in zip(homes[each], into, strict=True)]
                self._arriving[each] = self._bus.load(copies, self._bus.now()), into
        done, (y_1, y_2) = self._arriving.pop(number)
        self._bus.wait(done)
        return saved._replace(y_1=y_1, y_2=y_2)

    def _let_go(self, most: int) -> None:
        while len(self._leaving) > most:
            self._bus.wait(self._leaving.pop(0)[0])


def layer_stream(fused: Fused, steps: Collection[str], rows: int, bus: Bus) -> LayerStream | None:
    """The one that these memory steps need, with memory of its own; None if all of a layer stays on the card. `rows`:
    tokens in the largest micro-batch."""
    matrices, count = fused.layers[0].matrices, len(fused.layers)
    y = torch.empty((rows, matrices[0].copy.size(1)), dtype=torch.bfloat16, device="meta")
    like = {
        "host_weights": [each.copy for each in matrices],
        "host_gradients": [each.gradient for each in matrices],
        "host_activations": [y, y],
    }
    size = count * sum(place(each.nbytes) for step, some in like.items() if step in steps for each in some)
    return LayerStream(bus, Arena(size, bus.device), fused.layers, steps, y) if size else None
