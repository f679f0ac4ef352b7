"""GPT's forward and backward pass as a list of kernels: the fast twin of `GPT.forward` under autocast.

Neither autograd nor torch.compile has a part in it. Matrices are multiplied in bfloat16 copies that are renewed once a
step, and so is the residual stream kept; every pass over the activations that is no matrix product and no attention is
a kernel of ours; gradients of weights are added up in float32 by the products themselves.

The weights of norms are folded into the matrices after them (matrix.py), so that the residual stream is one buffer:
what a block adds to it is added in place, by the matrix product that computes it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from enum import IntEnum
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from nanopace.train.fused.attention import slopes_of
from nanopace.train.fused.matrix import Matrix, weight_of
from nanopace.train.fused.step_in_backward import Release, share_gradients
from nanopace.train.kernels.activation import gelu, gelu_backward
from nanopace.train.kernels.head import head_gradients, head_losses
from nanopace.train.kernels.norm import layer_norm, layer_norm_backward
from nanopace.train.kernels.products import add_product, product
from nanopace.train.kernels.tokens import embed, embed_backward
from nanopace.train.models.gpt2 import GPT, Block

# Above, three products for queries, keys and values take less than putting their gradients together; below, more.
_MANY_ROWS = 1 << 15


class Again(IntEnum):
    """What of a layer is computed once more instead of kept, each with all before it. Of 14 bfloat16 numbers for each
    token and each of its n_embd, so many are kept then."""

    NOTHING = 14
    ACTIVATION = 10  # what GELU gives: its backward pass can give it on the way
    HIDDEN = 6  # what goes into GELU: a fifth of the layer's forward products
    ATTENTION = 2  # queries, keys, values, and what attention found

    @classmethod
    def after(cls, steps: Collection[str]) -> Again:
        """By the names of the knob memory."""
        return min((each for each in cls if each.name.lower() in steps), default=cls.NOTHING)

    def next(self) -> Again | None:
        """What saves more; None: nothing does."""
        return max((each for each in Again if each < self), default=None)


class Layer(NamedTuple):
    """The matrices of one block."""

    attention: Matrix
    projection: Matrix
    into: Matrix
    out_of: Matrix


class Attended(NamedTuple):
    """What attention was given and what it found, with torch's way back."""

    q_k_v: tuple[Tensor, Tensor, Tensor]
    found: Tensor


class Kept(NamedTuple):
    """What the backward pass needs of one layer's forward pass. None: it is made once more."""

    y_1: Tensor
    factor_1: Tensor
    attended: Attended | None
    y_2: Tensor
    factor_2: Tensor
    h: Tensor | None
    g: Tensor | None


class Fused(ABC):
    """A model's weights, gradients that stay where they are, and the matrices as they are multiplied."""

    _again: Again
    release: Release | None = None  # what becomes of gradients as soon as they are there; None: they are added up

    def __init__(self, model: GPT) -> None:
        self._weights = list(model.parameters())
        self._matrices: list[Matrix] = []
        for each in self._weights:
            each.grad = torch.zeros_like(each)

    def renew(self) -> None:
        """After the weights have changed."""
        for each in self._matrices:
            each.renew()

    def climb(self) -> str | None:
        """Compute more once more from now on, and say what; None: there is nothing left to save."""
        more = self._again.next()
        if more is None:
            return None
        self._again = more
        return more.name.lower()

    def forget(self) -> None:
        """Gradients to zero, where the optimizer finds them."""
        gradients = [each.grad for each in self._weights if each.grad is not None]
        torch._foreach_zero_(gradients + [each.gradient for each in self._matrices if each.shared])

    def finish(self) -> None:
        """After the last micro-batch of a step: what was added up becomes gradients of the weights as they are."""
        for each in self._matrices:
            each.unfold()

    @abstractmethod
    def gradients(self, tokens: Tensor, targets: Tensor, share: float = 1.0) -> Tensor:
        """The mean loss; `share` times its gradient is added up."""

    @abstractmethod
    def sequence_losses(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """The mean loss of each sequence."""


class FusedGPT(Fused):
    """Calls the weights of a GPT, which stays what is saved, sampled from and trained.

    `released`: all layers share the place of one layer's gradients, and `release` will be there to take them.

    `fp8`: the forward products of training that are in 8 bits, of fp8.py's. Evaluations have none, so that a loss means
    the same in every run, and what is made once more in the backward pass is in bfloat16.
    """

    def __init__(
        self, model: GPT, again: Again = Again.NOTHING, fp8: Collection[str] = (), *, released: bool = False
    ) -> None:
        super().__init__(model)
        blocks = cast(nn.ModuleList, model.transformer["h"])
        if released:
            share_gradients(blocks)
        self._heads, self._again = model.shape.n_head, again
        self._tokens = weight_of(model.transformer["wte"])
        self._positions = weight_of(model.transformer["wpe"])
        self._layers = [_layer(each, fp8) for each in blocks]
        self._head = Matrix(self._tokens, weight_of(model.transformer["ln_f"]), shared=True, fp8="head" in fp8)
        self._matrices = [each for layer in self._layers for each in layer] + [self._head]
        self.renew()

    @torch.no_grad()
    def gradients(self, tokens: Tensor, targets: Tensor, share: float = 1.0) -> Tensor:
        """The mean loss; `share` times its gradient is added up, or released."""
        x = embed(tokens, self._tokens, self._positions)
        kept = [self._forward(layer, x, len(tokens), rounding=True) for layer in self._layers]
        head, y8 = self._head, self._head.room_for_8_bits(x)
        y, factor = layer_norm(x, y8)
        del x
        loss, d_y = head_gradients(y, head.copy, head.gradient, targets.reshape(-1), share, x8=y8, weight8=head.eighth)
        del y8
        if self.release is not None:
            self.release.begin(loss)
        d_x = layer_norm_backward(d_y, y, factor, None)
        del y, d_y
        for layer in reversed(self._layers):
            self._backward(layer, kept.pop(), d_x, len(tokens))
            if self.release is not None:
                self.release.update(layer)
        assert self._tokens.grad is not None
        assert self._positions.grad is not None
        embed_backward(d_x, tokens, self._tokens.grad, self._positions.grad)
        if self.release is not None:
            self.release.update([head], [self._positions])
        return loss

    @torch.no_grad()
    def sequence_losses(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """The mean loss of each sequence."""
        x = embed(tokens, self._tokens, self._positions)
        for layer in self._layers:
            self._forward(layer, x, len(tokens), rounding=False)
        losses = head_losses(layer_norm(x)[0], self._head.copy, targets.reshape(-1))
        return losses.view(targets.shape).mean(dim=1)

    def _forward(self, layer: Layer, x: Tensor, batch: int, *, rounding: bool) -> Kept:
        """What this layer finds is added to x. Products are in 8 bits where that is chosen and `rounding` allowed."""
        y8 = layer.attention.room_for_8_bits(x) if rounding else None
        y_1, factor_1 = layer_norm(x, y8)
        attended = self._attend(layer.attention.product(y_1, y8), batch)
        add_product(x, rows_of(attended.found), layer.projection.copy.t())
        y8 = layer.into.room_for_8_bits(x) if rounding else None
        y_2, factor_2 = layer_norm(x, y8)
        h = layer.into.product(y_2, y8)
        del y8
        g = gelu(h)
        add_product(x, g, layer.out_of.copy.t())
        return Kept(
            y_1,
            factor_1,
            attended if self._again > Again.ATTENTION else None,
            y_2,
            factor_2,
            h if self._again > Again.HIDDEN else None,
            g if self._again > Again.ACTIVATION else None,
        )

    def _backward(self, layer: Layer, kept: Kept, d_x: Tensor, batch: int) -> None:
        """What this layer does to the gradient is added to d_x."""
        self._backward_mlp(layer, kept, d_x)
        self._backward_attention(layer, kept, d_x, batch)

    def _backward_mlp(self, layer: Layer, kept: Kept, d_x: Tensor) -> None:
        h = layer.into.product(kept.y_2) if kept.h is None else kept.h
        d_h, g = gelu_backward(product(d_x, layer.out_of.copy), h, kept.g)
        add_product(layer.out_of.gradient, d_x.t(), g)
        add_product(layer.into.gradient, d_h.t(), kept.y_2)
        layer_norm_backward(product(d_h, layer.into.copy), kept.y_2, kept.factor_2, d_x)

    def _backward_attention(self, layer: Layer, kept: Kept, d_x: Tensor, batch: int) -> None:
        q_k_v, found = kept.attended or self._attend(layer.attention.product(kept.y_1), batch)
        d_found = product(d_x, layer.projection.copy).view_as(found.transpose(1, 2)).transpose(1, 2)
        add_product(layer.projection.gradient, d_x.t(), rows_of(found))
        slopes = [rows_of(each) for each in slopes_of(found, q_k_v, d_found)]
        layer_norm_backward(_backward_packed(slopes, layer.attention, kept.y_1), kept.y_1, kept.factor_1, d_x)

    def _attend(self, packed: Tensor, batch: int) -> Attended:
        """torch's own, with its own backward pass, whichever kernel it takes."""
        rows, width = packed.shape
        parts = packed.view(batch, rows // batch, 3, self._heads, width // (3 * self._heads))
        q, k, v = (each.transpose(1, 2).requires_grad_() for each in parts.unbind(2))
        with torch.enable_grad():
            return Attended((q, k, v), functional.scaled_dot_product_attention(q, k, v, is_causal=True))


def _backward_packed(slopes: list[Tensor], matrix: Matrix, y: Tensor) -> Tensor:
    """d_y, from the gradients of queries, keys and values, which are parts of one product."""
    if len(y) < _MANY_ROWS:
        slopes = [torch.cat(slopes, dim=1)]
    copies, gradients = matrix.copy.chunk(len(slopes)), matrix.gradient.chunk(len(slopes))
    d_y = product(slopes[0], copies[0])
    for slope, copy in zip(slopes[1:], copies[1:], strict=True):
        add_product(d_y, slope, copy)
    for slope, gradient in zip(slopes, gradients, strict=True):
        add_product(gradient, slope.t(), y)
    return d_y


def rows_of(heads: Tensor) -> Tensor:
    """(batch, heads, length, width of a head), as attention has it, to a row for each token."""
    return heads.detach().transpose(1, 2).flatten(2).flatten(0, 1)


def _layer(block: nn.Module, fp8: Collection[str]) -> Layer:
    assert isinstance(block, Block)
    return Layer(
        Matrix(weight_of(block.attn.c_attn), weight_of(block.ln_1), fp8="qkv" in fp8),
        Matrix(weight_of(block.attn.c_proj)),
        Matrix(weight_of(block.mlp.c_fc), weight_of(block.ln_2), fp8="into" in fp8),
        Matrix(weight_of(block.mlp.c_proj)),
    )
