"""GPT's forward and backward pass as a sequence of kernels: the fast twin of `GPT.forward` under autocast.

Each norm's weight is folded into the matrix after it (matrix.py). model.py has what it shares with FastGPT.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import cast

import torch
from torch import Tensor, nn

from nanopace.memory_ladder import keeps_gradients
from nanopace.train.fused.matrix import Away, Matrix, weight_of
from nanopace.train.fused.model import Activations, Fused, Layer, Norm, SavedAttention, gradient_of, rows_of
from nanopace.train.fused.step_in_backward import share_gradients
from nanopace.train.kernels.addmm import addmm_
from nanopace.train.kernels.embedding import embed, embed_backward
from nanopace.train.kernels.norm import layer_norm, layer_norm_backward
from nanopace.train.models.gpt2 import GPT, Block

# From this many rows on, three products for queries, keys and values are faster than concatenating their gradients.
_MANY_ROWS = 1 << 15


class FusedGPT(Fused):
    """If `steps` include gradients, all layers share one layer's gradients, and `release` uses them up layer by layer.

    `fp8` names training's products in 8 bits (see fp8.py). Evaluations use none, so that a loss means the same in every
    run, and the backward pass recomputes in bfloat16.
    """

    def __init__(self, model: GPT, steps: Collection[str] = (), fp8: Collection[str] = ()) -> None:
        super().__init__(model, steps, Norm(layer_norm, layer_norm_backward))
        blocks = cast(nn.ModuleList, model.transformer["h"])
        if not keeps_gradients(steps):
            share_gradients(blocks)
        self._heads = model.shape.n_head
        layers = [_layer(each, fp8, self._away) for each in blocks]
        head = Matrix(
            self._tokens,
            weight_of(model.transformer["ln_f"]),
            shared=True,
            fp8_forward="head" in fp8,
            fp8_backward="head" in fp8,
        )
        self._set_matrices(layers, head)

    def _embed(self, tokens: Tensor) -> tuple[Tensor, None]:
        assert self._positions is not None
        return embed(tokens, self._tokens, self._positions), None

    def _embed_backward(self, d_x: Tensor, tokens: Tensor, embedded: Tensor | None, factors: Tensor | None) -> None:  # noqa: ARG002
        embed_backward(d_x, tokens, self._order, gradient_of(self._tokens), gradient_of(self._positions))

    def _attend(self, layer: Layer, packed: Tensor, tokens: Tensor) -> SavedAttention:  # noqa: ARG002
        parts = packed.view(*tokens.shape, 3, self._heads, packed.size(1) // (3 * self._heads))
        q, k, v = (each.transpose(1, 2).requires_grad_() for each in parts.unbind(2))
        return SavedAttention(packed, (q, k, v), *self.attention.forward(q, k, v))

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
        out = attention.out
        d_out = torch.mm(d_x, layer.attn_proj.copy).view_as(out.transpose(1, 2)).transpose(1, 2)
        addmm_(layer.attn_proj.gradient, d_x.t(), rows_of(out))
        d_q_k_v = [rows_of(each) for each in self.attention.backward(out, attention.sums, attention.q_k_v, d_out)]
        d_y = _backward_packed(d_q_k_v, layer.qkv, saved.y_1)
        layer_norm_backward(d_y, saved.y_1, saved.factor_1, d_x, d_x8, scale)


def _backward_packed(grads: list[Tensor], matrix: Matrix, y: Tensor) -> Tensor:
    """d_y, from the gradients of queries, keys and values, which come from one product."""
    if len(y) < _MANY_ROWS:
        grads = [torch.cat(grads, dim=1)]
    copies, gradients = matrix.copy.chunk(len(grads)), matrix.gradient.chunk(len(grads))
    d_y = torch.mm(grads[0], copies[0])
    for grad, copy in zip(grads[1:], copies[1:], strict=True):
        addmm_(d_y, grad, copy)
    for grad, gradient in zip(grads, gradients, strict=True):
        addmm_(gradient, grad.t(), y)
    return d_y


def _layer(block: nn.Module, fp8: Collection[str], away: Away | None) -> Layer:
    assert isinstance(block, Block)
    attn, mlp, into = block.attn, block.mlp, "into" in fp8
    return Layer(
        Matrix(weight_of(attn.c_attn), weight_of(block.ln_1), away=away, fp8_forward="qkv" in fp8),
        Matrix(weight_of(attn.c_proj), away=away),
        Matrix(weight_of(mlp.c_fc), weight_of(block.ln_2), away=away, fp8_forward=into, fp8_backward=into),
        Matrix(weight_of(mlp.c_proj), away=away, fp8_backward=into),
    )
