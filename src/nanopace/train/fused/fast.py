"""FastGPT's forward and backward pass as a sequence of kernels. model.py has what it shares with GPT.

Its norms have no weights, so nothing is folded into the matrices. A layer saves less than in GPT: the backward pass of
ReLU squared needs only the output. The tables are looked up in float32 and not copied.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import cast

import torch
from torch import Tensor, nn

from nanopace.knob_values import ingredients
from nanopace.train.fused.matrix import Away, Matrix, weight_of
from nanopace.train.fused.model import Activations, Fused, Layer, Norm, SavedAttention, gradient_of, rows_of
from nanopace.train.kernels.addmm import addmm_
from nanopace.train.kernels.embedding import embed_norm, embed_norm_backward
from nanopace.train.kernels.norm import rms_norm, rms_norm_backward
from nanopace.train.kernels.own_value import without_own, without_own_backward
from nanopace.train.kernels.rotary import Angles, qk_norm_rope, qk_norm_rope_backward, shifted_keys
from nanopace.train.kernels.value_embeddings import add_value_embeddings, add_value_embeddings_backward
from nanopace.train.models.fast import CAP, SHARPNESS, FastBlock, FastGPT, rope_angles, shifts_keys, value_tables


class FusedFastGPT(Fused):
    """`fp8` means the same as in FusedGPT."""

    def __init__(self, model: FastGPT, steps: Collection[str] = (), fp8: Collection[str] = ()) -> None:
        shape = model.shape
        has = ingredients(shape.recipe, shape.without)
        self._rope, self._normed, relu2 = "rope" in has, "qk_norm" in has, "relu2" in has
        self._half_rope = "key_shift" in has
        self._shape = shape
        head_width = shape.n_embd // shape.n_head
        self._scale = SHARPNESS / head_width**0.5 if self._normed else None
        self._angles: dict[int, Angles] = {}
        # The input of ReLU squared is never saved, which saves as much as the memory step `activation`.
        steps = {*steps, "activation"} if relu2 else steps
        norm = Norm(rms_norm, rms_norm_backward)
        super().__init__(model, steps, norm, relu2=relu2, cap=CAP if "soft_cap" in has else None)
        head_in_fp8 = "head" in fp8
        head = Matrix(weight_of(model.lm_head), fp8_forward=head_in_fp8, fp8_backward=head_in_fp8)
        self._set_matrices(_layers(model, fp8, self._away), head)

    def _embed(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        return embed_norm(tokens, self._tokens, self._positions)

    def _embed_backward(self, d_x: Tensor, tokens: Tensor, embedded: Tensor | None, factors: Tensor | None) -> None:
        assert embedded is not None
        assert factors is not None
        d_positions = None if self._positions is None else self._positions.grad
        embed_norm_backward(d_x, embedded, factors, tokens, self._order, gradient_of(self._tokens), d_positions)

    def _attend(self, layer: Layer, packed: Tensor, tokens: Tensor) -> SavedAttention:
        if layer.value_table is not None and layer.value_gate is not None:
            add_value_embeddings(packed, tokens, layer.value_table, layer.value_gate)
        (batch, length), heads = tokens.shape, self._shape.n_head
        factors = qk_norm_rope(packed, batch, heads, self._rope_angles(tokens), normed=self._normed)
        q, k, v = packed.view(batch, length, 3, heads, -1).unbind(2)
        if layer.shifts_keys:
            k = shifted_keys(packed, batch, heads)
        q, k, v = (each.transpose(1, 2).requires_grad_() for each in (q, k, v))
        return SavedAttention(packed, (q, k, v), *self.attention.forward(q, k, v, self._scale), factors)

    def _attended(self, layer: Layer, attention: SavedAttention) -> Tensor:
        if layer.own_share is None:
            return rows_of(attention.out)
        return without_own(attention.out.detach(), attention.packed, layer.own_share.detach())

    def _backward_attention(
        self,
        layer: Layer,
        saved: Activations,
        d_x: Tensor,
        d_x8: Tensor | None,
        tokens: Tensor,
        scale: Tensor | None,
    ) -> None:
        attention = saved.attention or self._attend(layer, layer.qkv.product(saved.y_1), tokens)
        packed, q_k_v, out, sums, factors = attention
        assert factors is not None
        d_rows, d_values = torch.mm(d_x, layer.attn_proj.copy), None
        if layer.own_share is None:
            rows = rows_of(out)
        else:
            share, d_share = layer.own_share.detach(), gradient_of(layer.own_share)
            rows, d_values = without_own_backward(d_rows, out.detach(), packed, share, d_share)
        addmm_(layer.attn_proj.gradient, d_x.t(), rows)
        del rows
        d_out = d_rows.view_as(out.transpose(1, 2)).transpose(1, 2)
        d_q_k_v = self.attention.backward(out, sums, q_k_v, d_out, self._scale)
        d8 = layer.qkv.empty_fp8_gradient(len(packed))
        qk_norm_rope_backward(  # packed becomes its own gradient
            d_q_k_v,
            packed,
            factors,
            self._rope_angles(tokens),
            shifted=layer.shifts_keys,
            d_values=d_values,
            d8=d8,
            scale=scale,
        )
        del d_q_k_v, d_rows, d_out, d_values
        if layer.value_table is not None and layer.value_gate is not None:
            d_table, d_gate = gradient_of(layer.value_table), gradient_of(layer.value_gate)
            add_value_embeddings_backward(packed, self._order, layer.value_table, layer.value_gate, d_table, d_gate)
        addmm_(layer.qkv.gradient, packed.t(), saved.y_1)
        rms_norm_backward(layer.qkv.input_gradient(packed, d8, scale), saved.y_1, saved.factor_1, d_x, d_x8, scale)

    def _rope_angles(self, tokens: Tensor) -> Angles | None:
        """The angles of all positions, computed once per length; None without rope."""
        if not self._rope:
            return None
        length = tokens.size(1)
        if length not in self._angles:
            positions = torch.arange(length, device=tokens.device)
            width = self._shape.n_embd // self._shape.n_head
            self._angles[length] = rope_angles(positions, width, half=self._half_rope)
        return self._angles[length]


def _layers(model: FastGPT, fp8: Collection[str], away: Away | None) -> list[Layer]:
    qkv, into = ("qkv" in fp8, "into" in fp8)
    has = ingredients(model.shape.recipe, model.shape.without)
    tables = cast(nn.ModuleList, model.transformer["wve"])
    table_of = value_tables(model.shape.n_layer) if "value_embeddings" in has else {}
    layers = []
    for number, block in enumerate(cast(nn.ModuleList, model.transformer["h"])):
        assert isinstance(block, FastBlock)
        layers.append(
            Layer(
                Matrix(weight_of(block.attn.c_attn), away=away, fp8_forward=qkv, fp8_backward=qkv),
                Matrix(weight_of(block.attn.c_proj), away=away),
                Matrix(weight_of(block.mlp.c_fc), away=away, fp8_forward=into, fp8_backward=into),
                Matrix(weight_of(block.mlp.c_proj), away=away, fp8_backward=into),
                weight_of(tables[table_of[number]]) if number in table_of else None,
                block.attn.value_gate,
                block.attn.own_share,
                "key_shift" in has and shifts_keys(number, model.shape.n_layer),
            )
        )
    return layers
