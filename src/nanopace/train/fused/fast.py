"""FastGPT's forward and backward pass as a list of kernels, as gpt2.py has it for GPT.

Its norms have no weights, so nothing is folded into the matrices. A layer saves less than GPT's: the backward pass of
ReLU squared needs only the output. The tables are looked up in float32 and have no copies.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from nanopace.knob_values import ingredients
from nanopace.train.fused.attention import attention_backward
from nanopace.train.fused.gpt2 import Fused, SavedAttention, rows_of
from nanopace.train.fused.matrix import Matrix, weight_of
from nanopace.train.kernels.activation import gelu, gelu_backward
from nanopace.train.kernels.addmm import addmm_
from nanopace.train.kernels.embedding import embed_norm, embed_norm_backward
from nanopace.train.kernels.head import head_gradients, head_losses
from nanopace.train.kernels.norm import rms_norm, rms_norm_backward
from nanopace.train.kernels.relu2 import relu2, relu2_backward
from nanopace.train.kernels.rotary import Angles, qk_norm_rope, qk_norm_rope_backward
from nanopace.train.kernels.value_embeddings import add_value_embeddings, add_value_embeddings_backward
from nanopace.train.models.fast import CAP, SHARPNESS, FastBlock, FastGPT, rope_angles, value_tables


class FastLayer(NamedTuple):
    """The weights of one block."""

    qkv: Matrix
    attn_proj: Matrix
    mlp_fc: Matrix
    mlp_proj: Matrix
    value_table: nn.Parameter | None
    value_gate: nn.Parameter | None


class SavedFastAttention(NamedTuple):
    """The same, and the buffer that queries, keys and values are views of."""

    packed: Tensor  # rows of [queries, keys, values]
    factors: Tensor  # of the norms of queries and keys
    attention: SavedAttention


class FastActivations(NamedTuple):
    """What the backward pass needs of one layer's forward pass. None: it is recomputed."""

    y_1: Tensor
    factor_1: Tensor
    heads: SavedFastAttention | None
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
        # The input of ReLU squared is never saved, which is as much as the step activation saves.
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
        saved = [self._forward(layer, x, tokens, fp8=True) for layer in self._layers]
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
            self._backward(layer, saved.pop(), d_x, tokens)
        d_positions = None if self._positions is None else self._positions.grad
        embed_norm_backward(d_x, start, start_factor, tokens, _gradient(self._tokens), d_positions)
        return loss

    @torch.no_grad()
    def sequence_losses(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """The mean loss of each sequence."""
        x, _ = embed_norm(tokens, self._tokens, self._positions)
        for layer in self._layers:
            self._forward(layer, x, tokens, fp8=False)
        losses = head_losses(rms_norm(x)[0], self._head.copy, targets.reshape(-1), self._cap)
        return losses.view(targets.shape).mean(dim=1)

    def _forward(self, layer: FastLayer, x: Tensor, tokens: Tensor, *, fp8: bool) -> FastActivations:
        """Add this layer to the residual stream x. Products are in 8 bits where that is chosen and `fp8` allows it."""
        y8 = layer.qkv.empty_fp8(x) if fp8 else None
        y_1, factor_1 = rms_norm(x, y8)
        heads = self._attend(layer, layer.qkv.product(y_1, y8), tokens)
        addmm_(x, rows_of(heads.attention.out), layer.attn_proj.copy.t())
        y8 = layer.mlp_fc.empty_fp8(x) if fp8 else None
        y_2, factor_2 = rms_norm(x, y8)
        h, g = self._activate(layer.mlp_fc.product(y_2, y8))
        del y8
        addmm_(x, g, layer.mlp_proj.copy.t())
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
        """The input of GELU, which its backward pass needs beside the output, and the output."""
        return (None, relu2(h)) if self._relu2 else (h, gelu(h))

    def _backward(self, layer: FastLayer, saved: FastActivations, d_x: Tensor, tokens: Tensor) -> None:
        """Add this layer's part of the gradient to d_x."""
        self._backward_mlp(layer, saved, d_x)
        self._backward_attention(layer, saved, d_x, tokens)

    def _backward_mlp(self, layer: FastLayer, saved: FastActivations, d_x: Tensor) -> None:
        h, g = saved.h, saved.g
        if h is None and g is None:
            h, g = self._activate(layer.mlp_fc.product(saved.y_2))
        d_g = torch.mm(d_x, layer.mlp_proj.copy)
        if h is None:
            assert g is not None
            addmm_(layer.mlp_proj.gradient, d_x.t(), g)
            d_h = relu2_backward(d_g, g)
        else:
            d_h, g = gelu_backward(d_g, h, g)
            addmm_(layer.mlp_proj.gradient, d_x.t(), g)
        addmm_(layer.mlp_fc.gradient, d_h.t(), saved.y_2)
        rms_norm_backward(torch.mm(d_h, layer.mlp_fc.copy), saved.y_2, saved.factor_2, d_x)

    def _backward_attention(self, layer: FastLayer, saved: FastActivations, d_x: Tensor, tokens: Tensor) -> None:
        packed, factors, (q_k_v, out) = saved.heads or self._attend(layer, layer.qkv.product(saved.y_1), tokens)
        d_out = torch.mm(d_x, layer.attn_proj.copy).view_as(out.transpose(1, 2)).transpose(1, 2)
        addmm_(layer.attn_proj.gradient, d_x.t(), rows_of(out))
        d_q_k_v = attention_backward(out, q_k_v, d_out)
        qk_norm_rope_backward(d_q_k_v, packed, factors, self._rope_angles(tokens))  # packed becomes its own gradient
        del d_q_k_v, d_out
        if layer.value_table is not None and layer.value_gate is not None:
            d_table, d_gate = _gradient(layer.value_table), _gradient(layer.value_gate)
            add_value_embeddings_backward(packed, tokens, layer.value_table, layer.value_gate, d_table, d_gate)
        addmm_(layer.qkv.gradient, packed.t(), saved.y_1)
        rms_norm_backward(torch.mm(packed, layer.qkv.copy), saved.y_1, saved.factor_1, d_x)

    def _attend(self, layer: FastLayer, packed: Tensor, tokens: Tensor) -> SavedFastAttention:
        """torch's own attention, with its own backward pass, whichever kernel it takes."""
        if layer.value_table is not None and layer.value_gate is not None:
            add_value_embeddings(packed, tokens, layer.value_table, layer.value_gate)
        (batch, length), heads = tokens.shape, self._shape.n_head
        factors = qk_norm_rope(packed, batch, heads, self._rope_angles(tokens), normed=self._normed)
        parts = packed.view(batch, length, 3, heads, -1)
        q, k, v = (each.transpose(1, 2).requires_grad_() for each in parts.unbind(2))
        with torch.enable_grad():
            out = functional.scaled_dot_product_attention(q, k, v, is_causal=True, scale=self._scale)
        return SavedFastAttention(packed, factors, SavedAttention((q, k, v), out))

    def _rope_angles(self, tokens: Tensor) -> Angles | None:
        """Of each position, computed once for each length."""
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
