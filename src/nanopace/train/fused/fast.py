"""FastGPT's forward and backward pass as a list of kernels, as gpt2.py has it for GPT.

Its norms have no weights, so nothing is folded into the matrices. What a layer keeps is less than GPT's: the square of
ReLU needs nothing but what it gave. The tables are looked up in float32 and have no copies.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from nanopace.knob_values import ingredients
from nanopace.train.fused.attention import attention_backward
from nanopace.train.fused.gpt2 import Attended, Fused, rows_of
from nanopace.train.fused.matrix import Matrix, weight_of
from nanopace.train.kernels.activation import gelu, gelu_backward
from nanopace.train.kernels.addmm import addmm_
from nanopace.train.kernels.embedding import embed_norm, embed_norm_backward
from nanopace.train.kernels.head import head_gradients, head_losses
from nanopace.train.kernels.norm import rms_norm, rms_norm_backward
from nanopace.train.kernels.relu2 import relu2, relu2_backward
from nanopace.train.kernels.rotary import Angles, turn, turn_backward
from nanopace.train.kernels.values import add_values, add_values_backward
from nanopace.train.models.fast import CAP, SHARPNESS, FastBlock, FastGPT, rope_angles, value_tables


class FastLayer(NamedTuple):
    """The weights of one block."""

    attention: Matrix
    projection: Matrix
    into: Matrix
    out_of: Matrix
    table: nn.Parameter | None  # of what tokens add to their values
    gate: nn.Parameter | None


class Heads(NamedTuple):
    """What attention was given, as it came out of the product, and what it found."""

    packed: Tensor  # q_k_v are views of it
    factors: Tensor
    attended: Attended


class FastActivations(NamedTuple):
    """What the backward pass needs of one layer's forward pass. None: it is recomputed."""

    y_1: Tensor
    factor_1: Tensor
    heads: Heads | None
    y_2: Tensor
    factor_2: Tensor
    h: Tensor | None
    g: Tensor | None


class FusedFastGPT(Fused):
    """Calls the weights of a FastGPT, which stays what is saved, sampled from and trained. `fp8` is FusedGPT's."""

    def __init__(self, model: FastGPT, steps: Collection[str] = (), fp8: Collection[str] = ()) -> None:
        shape = model.shape
        has = ingredients(shape.recipe, shape.without)
        self._rope, self._normed, self._relu2 = ("rope" in has, "qk_norm" in has, "relu2" in has)
        self._shape = shape
        self._cap = CAP if "soft_cap" in has else None
        head = shape.n_embd // shape.n_head
        self._scale = SHARPNESS / head**0.5 if self._normed else None
        self._angles: dict[int, Angles] = {}
        # What goes into the square of ReLU is never kept, which is as much as the step activation saves.
        super().__init__(model, {*steps, "activation"} if self._relu2 else steps)
        self._tokens = weight_of(model.transformer["wte"])
        self._positions = None if self._rope else weight_of(model.transformer["wpe"])
        self._layers = _layers(model, fp8)
        self._head = Matrix(weight_of(model.lm_head), fp8="head" in fp8)
        self._matrices = [each for layer in self._layers for each in layer[:4]] + [self._head]
        self.refresh_copies()

    @torch.no_grad()
    def gradients(self, tokens: Tensor, targets: Tensor, share: float = 1.0) -> Tensor:
        """The mean loss; `share` times its gradient is added up."""
        start, start_factor = embed_norm(tokens, self._tokens, self._positions)
        x = start.clone()
        kept = [self._forward(layer, x, tokens, rounding=True) for layer in self._layers]
        head, y8 = self._head, self._head.empty_fp8(x)
        y, factor = rms_norm(x, y8)
        del x  # what nobody needs any more makes room
        loss, d_y = head_gradients(
            y, head.copy, head.gradient, targets.reshape(-1), share, self._cap, x8=y8, weight8=head.fp8_weight
        )
        del y8
        d_x = rms_norm_backward(d_y, y, factor, None)
        del y, d_y
        for layer in reversed(self._layers):
            self._backward(layer, kept.pop(), d_x, tokens)
        d_positions = None if self._positions is None else self._positions.grad
        embed_norm_backward(d_x, start, start_factor, tokens, _gradient(self._tokens), d_positions)
        return loss

    @torch.no_grad()
    def sequence_losses(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """The mean loss of each sequence."""
        x, _ = embed_norm(tokens, self._tokens, self._positions)
        for layer in self._layers:
            self._forward(layer, x, tokens, rounding=False)
        losses = head_losses(rms_norm(x)[0], self._head.copy, targets.reshape(-1), self._cap)
        return losses.view(targets.shape).mean(dim=1)

    def _forward(self, layer: FastLayer, x: Tensor, tokens: Tensor, *, rounding: bool) -> FastActivations:
        """What this layer finds is added to x. Products are in 8 bits where that is chosen and `rounding` allowed."""
        y8 = layer.attention.empty_fp8(x) if rounding else None
        y_1, factor_1 = rms_norm(x, y8)
        heads = self._attend(layer, layer.attention.product(y_1, y8), tokens)
        addmm_(x, rows_of(heads.attended.found), layer.projection.copy.t())
        y8 = layer.into.empty_fp8(x) if rounding else None
        y_2, factor_2 = rms_norm(x, y8)
        h, g = self._activate(layer.into.product(y_2, y8))
        del y8
        addmm_(x, g, layer.out_of.copy.t())
        return FastActivations(
            y_1,
            factor_1,
            None if "attention" in self._recompute else heads,
            y_2,
            factor_2,
            None if "hidden" in self._recompute else h,
            None if ("hidden" if self._relu2 else "activation") in self._recompute else g,
        )

    def _activate(self, h: Tensor) -> tuple[Tensor | None, Tensor]:
        """What the backward pass of GELU needs beside what it gave, and that."""
        return (None, relu2(h)) if self._relu2 else (h, gelu(h))

    def _backward(self, layer: FastLayer, kept: FastActivations, d_x: Tensor, tokens: Tensor) -> None:
        """What this layer does to the gradient is added to d_x."""
        self._backward_mlp(layer, kept, d_x)
        self._backward_attention(layer, kept, d_x, tokens)

    def _backward_mlp(self, layer: FastLayer, kept: FastActivations, d_x: Tensor) -> None:
        h, g = kept.h, kept.g
        if h is None and g is None:
            h, g = self._activate(layer.into.product(kept.y_2))
        d_g = torch.mm(d_x, layer.out_of.copy)
        if h is None:
            assert g is not None
            addmm_(layer.out_of.gradient, d_x.t(), g)
            d_h = relu2_backward(d_g, g)
        else:
            d_h, g = gelu_backward(d_g, h, g)
            addmm_(layer.out_of.gradient, d_x.t(), g)
        addmm_(layer.into.gradient, d_h.t(), kept.y_2)
        rms_norm_backward(torch.mm(d_h, layer.into.copy), kept.y_2, kept.factor_2, d_x)

    def _backward_attention(self, layer: FastLayer, kept: FastActivations, d_x: Tensor, tokens: Tensor) -> None:
        packed, factors, (q_k_v, found) = kept.heads or self._attend(layer, layer.attention.product(kept.y_1), tokens)
        d_found = torch.mm(d_x, layer.projection.copy).view_as(found.transpose(1, 2)).transpose(1, 2)
        addmm_(layer.projection.gradient, d_x.t(), rows_of(found))
        slopes = attention_backward(found, q_k_v, d_found)
        turn_backward(slopes, packed, factors, self._turned(tokens))  # from now on packed is its own gradient
        del slopes, d_found
        if layer.table is not None and layer.gate is not None:
            d_table, d_gate = _gradient(layer.table), _gradient(layer.gate)
            add_values_backward(packed, tokens, layer.table, layer.gate, d_table, d_gate)
        addmm_(layer.attention.gradient, packed.t(), kept.y_1)
        rms_norm_backward(torch.mm(packed, layer.attention.copy), kept.y_1, kept.factor_1, d_x)

    def _attend(self, layer: FastLayer, packed: Tensor, tokens: Tensor) -> Heads:
        """torch's own attention, with its own backward pass, whichever kernel it takes."""
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


def _layers(model: FastGPT, fp8: Collection[str]) -> list[FastLayer]:
    has = ingredients(model.shape.recipe, model.shape.without)
    tables = cast(nn.ModuleList, model.transformer["wve"])
    table_of = value_tables(model.shape.n_layer) if "value_embeddings" in has else {}
    layers = []
    for number, block in enumerate(cast(nn.ModuleList, model.transformer["h"])):
        assert isinstance(block, FastBlock)
        layers.append(
            FastLayer(
                Matrix(weight_of(block.attn.c_attn), fp8="qkv" in fp8),
                Matrix(weight_of(block.attn.c_proj)),
                Matrix(weight_of(block.mlp.c_fc), fp8="into" in fp8),
                Matrix(weight_of(block.mlp.c_proj)),
                weight_of(tables[table_of[number]]) if number in table_of else None,
                block.attn.value_gate,
            )
        )
    return layers


def _gradient(weight: Tensor) -> Tensor:
    assert weight.grad is not None, "gradients are there from the beginning"
    return weight.grad
