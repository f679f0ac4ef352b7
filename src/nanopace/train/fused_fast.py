"""FastGPT's forward and backward pass as a list of kernels, as fused.py has it for GPT.

Its norms have no weights, so nothing is folded into the matrices. What a layer keeps is less than GPT's: the square of
ReLU needs nothing but what it gave. The tables are looked up in float32 and have no copies.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from nanopace.config import ingredients
from nanopace.train.fast_model import CAP, SHARPNESS, FastBlock, FastGPT, rope_angles, value_tables
from nanopace.train.fused import Again, Attended, Fused, rows_of
from nanopace.train.kernels.activation import gelu, gelu_backward
from nanopace.train.kernels.head import head_gradients, head_losses
from nanopace.train.kernels.linear import accumulate
from nanopace.train.kernels.mixing import Mixing, mix_norm, mix_norm_backward, norm, norm_backward
from nanopace.train.kernels.relu2 import relu2, relu2_backward
from nanopace.train.kernels.rotary import Angles, turn, turn_backward
from nanopace.train.kernels.start import begin, begin_backward
from nanopace.train.kernels.values import add_values, add_values_backward
from nanopace.train.matrix import Matrix, weight_of


class FastLayer(NamedTuple):
    """The weights of one block."""

    attention: Matrix
    projection: Matrix
    into: Matrix
    out_of: Matrix
    table: nn.Parameter | None  # of what tokens add to their values
    gate: nn.Parameter | None
    shares: tuple[Tensor, Tensor, Tensor, Tensor] | None  # of stream and embedding, and their gradients: views

    def mixing(self, start: Tensor) -> Mixing | None:
        return None if self.shares is None else Mixing(start, *self.shares)


class Heads(NamedTuple):
    """What attention was given, as it came out of the product, and what it found."""

    packed: Tensor  # q_k_v are views of it
    factors: Tensor
    attended: Attended


class FastKept(NamedTuple):
    """What the backward pass needs of one layer's forward pass. None: it is made once more."""

    y_1: Tensor
    factor_1: Tensor
    heads: Heads | None
    y_2: Tensor
    factor_2: Tensor
    h: Tensor | None
    g: Tensor | None


class FusedFastGPT(Fused):
    """Calls the weights of a FastGPT, which stays what is saved, sampled from and trained."""

    def __init__(self, model: FastGPT, again: Again = Again.NOTHING) -> None:
        shape = model.shape
        has = ingredients(shape.recipe, shape.without)
        self._rope, self._normed, self._relu2 = ("rope" in has, "qk_norm" in has, "relu2" in has)
        # What goes into the square of ReLU is never kept, which is as much as Again.ACTIVATION saves.
        self._shape, self._again = shape, min(again, Again.ACTIVATION) if self._relu2 else again
        self._cap = CAP if "soft_cap" in has else None
        head = shape.n_embd // shape.n_head
        self._scale = SHARPNESS / head**0.5 if self._normed else None
        self._angles: dict[int, Angles] = {}
        super().__init__(model)
        self._tokens = weight_of(model.transformer["wte"])
        self._positions = None if self._rope else weight_of(model.transformer["wpe"])
        self._layers = _layers(model)
        self._head = Matrix(weight_of(model.lm_head))
        self._matrices = [each for layer in self._layers for each in layer[:4]] + [self._head]
        self.renew()

    @torch.no_grad()
    def gradients(self, tokens: Tensor, targets: Tensor, share: float = 1.0) -> Tensor:
        """The mean loss; `share` times its gradient is added up."""
        start, start_factor = begin(tokens, self._tokens, self._positions)
        x, kept = start, []
        for layer in self._layers:
            x, of_layer = self._forward(layer, x, start, tokens)
            kept.append(of_layer)
        y, factor = norm(x)
        del x, of_layer  # what nobody needs any more makes room
        loss, d_y = head_gradients(y, self._head.copy, self._head.gradient, targets.reshape(-1), share, self._cap)
        d_x, d_start = norm_backward(d_y, y, factor, None), None
        del y, d_y
        for layer in reversed(self._layers):
            d_start = self._backward(layer, kept.pop(), d_x, start, d_start, tokens)
        d_positions = None if self._positions is None else self._positions.grad
        begin_backward(d_x, d_start, start, start_factor, tokens, _gradient(self._tokens), d_positions)
        return loss

    @torch.no_grad()
    def sequence_losses(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """The mean loss of each sequence."""
        start, _ = begin(tokens, self._tokens, self._positions)
        x = start
        for layer in self._layers:
            x = self._forward(layer, x, start, tokens)[0]
        losses = head_losses(norm(x)[0], self._head.copy, targets.reshape(-1), self._cap)
        return losses.view(targets.shape).mean(dim=1)

    def _forward(self, layer: FastLayer, x: Tensor, start: Tensor, tokens: Tensor) -> tuple[Tensor, FastKept]:
        """The stream after this layer: in the place of x, unless that is `start`, which stays."""
        mixing = layer.mixing(start)
        if mixing is None:
            x = x.clone() if x is start else x
            y_1, factor_1 = norm(x)
        else:
            into = torch.empty_like(x) if x is start else x
            y_1, factor_1 = mix_norm(x, mixing, into)
            x = into
        heads = self._attend(layer, y_1, tokens)
        x.addmm_(rows_of(heads.attended.found), layer.projection.copy.t())
        y_2, factor_2 = norm(x)
        h, g = self._activate(layer, y_2)
        x.addmm_(g, layer.out_of.copy.t())
        kept = FastKept(
            y_1,
            factor_1,
            heads if self._again > Again.ATTENTION else None,
            y_2,
            factor_2,
            h if self._again > Again.HIDDEN else None,
            g if self._again > (Again.HIDDEN if self._relu2 else Again.ACTIVATION) else None,
        )
        return x, kept

    def _activate(self, layer: FastLayer, y: Tensor) -> tuple[Tensor | None, Tensor]:
        """What the backward pass of GELU needs beside what it gave, and that."""
        h = torch.mm(y, layer.into.copy.t())
        return (None, relu2(h)) if self._relu2 else (h, gelu(h))

    def _backward(
        self, layer: FastLayer, kept: FastKept, d_x: Tensor, start: Tensor, d_start: Tensor | None, tokens: Tensor
    ) -> Tensor | None:
        """What this layer does to the gradient is added to d_x; what goes straight to `start`, to d_start."""
        self._backward_mlp(layer, kept, d_x)
        d_y = self._backward_attention(layer, kept, d_x, tokens)
        mixing = layer.mixing(start)
        if mixing is None:
            norm_backward(d_y, kept.y_1, kept.factor_1, d_x)
            return None
        return mix_norm_backward(d_y, kept.y_1, kept.factor_1, d_x, mixing, d_start)

    def _backward_mlp(self, layer: FastLayer, kept: FastKept, d_x: Tensor) -> None:
        h, g = kept.h, kept.g
        if h is None and g is None:
            h, g = self._activate(layer, kept.y_2)
        d_g = torch.mm(d_x, layer.out_of.copy)
        if h is None:
            assert g is not None
            accumulate(layer.out_of.gradient, d_x, g)
            d_h = relu2_backward(d_g, g)
        else:
            d_h, g = gelu_backward(d_g, h, g)
            accumulate(layer.out_of.gradient, d_x, g)
        accumulate(layer.into.gradient, d_h, kept.y_2)
        norm_backward(torch.mm(d_h, layer.into.copy), kept.y_2, kept.factor_2, d_x)

    def _backward_attention(self, layer: FastLayer, kept: FastKept, d_x: Tensor, tokens: Tensor) -> Tensor:
        packed, factors, (q_k_v, found) = kept.heads or self._attend(layer, kept.y_1, tokens)
        d_found = torch.mm(d_x, layer.projection.copy).view_as(found.transpose(1, 2)).transpose(1, 2)
        accumulate(layer.projection.gradient, d_x, rows_of(found))
        slopes = torch.autograd.grad(found, q_k_v, d_found)
        turn_backward(slopes, packed, factors, self._turned(tokens))  # from now on packed is its own gradient
        del slopes, d_found
        if layer.table is not None and layer.gate is not None:
            d_table, d_gate = _gradient(layer.table), _gradient(layer.gate)
            add_values_backward(packed, tokens, layer.table, layer.gate, d_table, d_gate)
        accumulate(layer.attention.gradient, packed, kept.y_1)
        return torch.mm(packed, layer.attention.copy)

    def _attend(self, layer: FastLayer, y: Tensor, tokens: Tensor) -> Heads:
        """torch's own attention, with its own backward pass, whichever kernel it takes."""
        packed = torch.mm(y, layer.attention.copy.t())
        if layer.table is not None and layer.gate is not None:
            add_values(packed, tokens, layer.table, layer.gate)
        (batch, length), heads = tokens.shape, self._shape.n_head
        factors = turn(packed, batch, heads, self._turned(tokens), normed=self._normed)
        parts = packed.view(batch, length, 3, heads, -1)
        q, k, v = (each.transpose(1, 2).requires_grad_() for each in parts.unbind(2))
        with torch.enable_grad():
            found = functional.scaled_dot_product_attention(q, k, v, is_causal=True, scale=self._scale)
        return Heads(packed, factors, Attended((q, k, v), found))

    def _turned(self, tokens: Tensor) -> Angles | None:
        """By how much each position turns, made once for each length."""
        if not self._rope:
            return None
        length = tokens.size(1)
        if length not in self._angles:
            positions = torch.arange(length, device=tokens.device)
            self._angles[length] = rope_angles(positions, self._shape.n_embd // self._shape.n_head)
        return self._angles[length]


def _layers(model: FastGPT) -> list[FastLayer]:
    has = ingredients(model.shape.recipe, model.shape.without)
    tables = cast(nn.ModuleList, model.transformer["wve"])
    table_of = value_tables(model.shape.n_layer) if "value_embeddings" in has else {}
    layers = []
    for number, block in enumerate(cast(nn.ModuleList, model.transformer["h"])):
        assert isinstance(block, FastBlock)
        layers.append(
            FastLayer(
                Matrix(weight_of(block.attn.c_attn)),
                Matrix(weight_of(block.attn.c_proj)),
                Matrix(weight_of(block.mlp.c_fc)),
                Matrix(weight_of(block.mlp.c_proj)),
                weight_of(tables[table_of[number]]) if number in table_of else None,
                block.attn.value_gate,
                _shares(model, number) if "embed_skip" in has else None,
            )
        )
    return layers


def _shares(model: FastGPT, number: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    one = slice(number, number + 1)
    return model.keep[one].detach(), model.again[one].detach(), _gradient(model.keep)[one], _gradient(model.again)[one]


def _gradient(weight: Tensor) -> Tensor:
    assert weight.grad is not None, "gradients are there from the beginning"
    return weight.grad
