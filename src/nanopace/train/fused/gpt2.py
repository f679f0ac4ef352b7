"""GPT's forward and backward pass as a list of kernels: the fast twin of `GPT.forward` under autocast.

Neither autograd nor torch.compile has a part in it. Matrices are multiplied in bfloat16 copies, made anew each
step, and so is the residual stream kept; every pass over the activations that is no matrix product and no attention is
a kernel of ours; gradients of weights are added up in float32 by the products themselves.

The weights of norms are folded into the matrices after them (matrix.py), so that the residual stream is one buffer:
what a block adds to it is added in place, by the matrix product that computes it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from nanopace.memory_ladder import MEMORY_STEPS, keeps_gradients, recomputed
from nanopace.train.fused.attention import attention_backward
from nanopace.train.fused.matrix import Matrix, weight_of
from nanopace.train.fused.step_in_backward import StepInBackward, share_gradients
from nanopace.train.kernels.activation import gelu, gelu_backward
from nanopace.train.kernels.addmm import addmm_
from nanopace.train.kernels.embedding import embed, embed_backward
from nanopace.train.kernels.head import head_gradients, head_losses
from nanopace.train.kernels.norm import layer_norm, layer_norm_backward
from nanopace.train.models.gpt2 import GPT, Block
from nanopace.train.private_torch import zero_all

# Above, three products for queries, keys and values take less than putting their gradients together; below, more.
_MANY_ROWS = 1 << 15


class Layer(NamedTuple):
    """The matrices of one block."""

    qkv: Matrix
    attn_proj: Matrix
    mlp_fc: Matrix
    mlp_proj: Matrix


class SavedAttention(NamedTuple):
    """Input and output of attention, with the graph that autograd goes back through."""

    q_k_v: tuple[Tensor, Tensor, Tensor]
    out: Tensor


class Activations(NamedTuple):
    """What the backward pass needs of one layer's forward pass. None: it is recomputed."""

    y_1: Tensor
    factor_1: Tensor
    attended: SavedAttention | None
    y_2: Tensor
    factor_2: Tensor
    h: Tensor | None
    g: Tensor | None


class Fused(ABC):
    """A model's weights, gradients that stay where they are, and the matrices as they are multiplied.

    `steps` of the memory ladder say what of a layer is computed again in the backward pass instead of saved.
    """

    release: StepInBackward | None = None  # takes each gradient as soon as it is there; None: they are added up

    def __init__(self, model: GPT, steps: Collection[str]) -> None:
        self._recompute = recomputed(steps)
        self._weights = list(model.parameters())
        self._matrices: list[Matrix] = []
        for each in self._weights:
            each.grad = torch.zeros_like(each)

    def refresh_copies(self) -> None:
        """The matrices as they are multiplied, after the weights have changed."""
        for each in self._matrices:
            each.refresh_copies()

    def climb(self) -> str | None:
        """Recompute more from now on, and say what; None: there is nothing left to save."""
        more = next((step for step in recomputed(MEMORY_STEPS) if step not in self._recompute), None)
        if more is not None:
            self._recompute = recomputed([more])
        return more

    def zero_grad(self) -> None:
        """Gradients to zero, where the optimizer finds them."""
        gradients = [each.grad for each in self._weights if each.grad is not None]
        zero_all(gradients + [each.gradient for each in self._matrices if each.shared])

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

    Where `steps` do without gradients, all layers share the place of one layer's, and `release` will be there to take
    them.

    `fp8`: the forward products of training that are in 8 bits, of fp8.py's. Evaluations have none, so that a loss means
    the same in every run, and what the backward pass recomputes is in bfloat16.
    """

    def __init__(self, model: GPT, steps: Collection[str] = (), fp8: Collection[str] = ()) -> None:
        super().__init__(model, steps)
        blocks = cast(nn.ModuleList, model.transformer["h"])
        if not keeps_gradients(steps):
            share_gradients(blocks)
        self._heads = model.shape.n_head
        self._tokens = weight_of(model.transformer["wte"])
        self._positions = weight_of(model.transformer["wpe"])
        self._layers = [_layer(each, fp8) for each in blocks]
        self._head = Matrix(self._tokens, weight_of(model.transformer["ln_f"]), shared=True, fp8="head" in fp8)
        self._matrices = [each for layer in self._layers for each in layer] + [self._head]
        self.refresh_copies()

    @torch.no_grad()
    def gradients(self, tokens: Tensor, targets: Tensor, share: float = 1.0) -> Tensor:
        """The mean loss; `share` times its gradient is added up, or released."""
        x = embed(tokens, self._tokens, self._positions)
        saved = [self._forward(layer, x, len(tokens), fp8=True) for layer in self._layers]
        head, y8 = self._head, self._head.empty_fp8(x)
        y, factor = layer_norm(x, y8)
        del x
        loss, d_y = head_gradients(
            y, head.copy, head.gradient, targets.reshape(-1), share, x8=y8, weight8=head.fp8_weight
        )
        del y8
        if self.release is not None:
            self.release.begin_step(loss)
        d_x = layer_norm_backward(d_y, y, factor, None)
        del y, d_y
        for layer in reversed(self._layers):
            self._backward(layer, saved.pop(), d_x, len(tokens))
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
            self._forward(layer, x, len(tokens), fp8=False)
        losses = head_losses(layer_norm(x)[0], self._head.copy, targets.reshape(-1))
        return losses.view(targets.shape).mean(dim=1)

    def _forward(self, layer: Layer, x: Tensor, batch: int, *, fp8: bool) -> Activations:
        """Add this layer to the residual stream x. Products are in 8 bits where that is chosen and `fp8` allows it."""
        y8 = layer.qkv.empty_fp8(x) if fp8 else None
        y_1, factor_1 = layer_norm(x, y8)
        attended = self._attend(layer.qkv.product(y_1, y8), batch)
        addmm_(x, rows_of(attended.out), layer.attn_proj.copy.t())
        y8 = layer.mlp_fc.empty_fp8(x) if fp8 else None
        y_2, factor_2 = layer_norm(x, y8)
        h = layer.mlp_fc.product(y_2, y8)
        del y8
        g = gelu(h)
        addmm_(x, g, layer.mlp_proj.copy.t())
        return Activations(
            y_1,
            factor_1,
            None if "attention" in self._recompute else attended,
            y_2,
            factor_2,
            None if "hidden" in self._recompute else h,
            None if "activation" in self._recompute else g,
        )

    def _backward(self, layer: Layer, saved: Activations, d_x: Tensor, batch: int) -> None:
        """Add this layer's part of the gradient to d_x."""
        self._backward_mlp(layer, saved, d_x)
        self._backward_attention(layer, saved, d_x, batch)

    def _backward_mlp(self, layer: Layer, saved: Activations, d_x: Tensor) -> None:
        h = layer.mlp_fc.product(saved.y_2) if saved.h is None else saved.h
        d_h, g = gelu_backward(torch.mm(d_x, layer.mlp_proj.copy), h, saved.g)
        addmm_(layer.mlp_proj.gradient, d_x.t(), g)
        addmm_(layer.mlp_fc.gradient, d_h.t(), saved.y_2)
        layer_norm_backward(torch.mm(d_h, layer.mlp_fc.copy), saved.y_2, saved.factor_2, d_x)

    def _backward_attention(self, layer: Layer, saved: Activations, d_x: Tensor, batch: int) -> None:
        q_k_v, out = saved.attended or self._attend(layer.qkv.product(saved.y_1), batch)
        d_out = torch.mm(d_x, layer.attn_proj.copy).view_as(out.transpose(1, 2)).transpose(1, 2)
        addmm_(layer.attn_proj.gradient, d_x.t(), rows_of(out))
        d_q_k_v = [rows_of(each) for each in attention_backward(out, q_k_v, d_out)]
        layer_norm_backward(_backward_packed(d_q_k_v, layer.qkv, saved.y_1), saved.y_1, saved.factor_1, d_x)

    def _attend(self, packed: Tensor, batch: int) -> SavedAttention:
        """torch's own, with its own backward pass, whichever kernel it takes."""
        rows, width = packed.shape
        parts = packed.view(batch, rows // batch, 3, self._heads, width // (3 * self._heads))
        q, k, v = (each.transpose(1, 2).requires_grad_() for each in parts.unbind(2))
        with torch.enable_grad():
            return SavedAttention((q, k, v), functional.scaled_dot_product_attention(q, k, v, is_causal=True))


def _backward_packed(grads: list[Tensor], matrix: Matrix, y: Tensor) -> Tensor:
    """d_y, from the gradients of queries, keys and values, which are parts of one product."""
    if len(y) < _MANY_ROWS:
        grads = [torch.cat(grads, dim=1)]
    copies, gradients = matrix.copy.chunk(len(grads)), matrix.gradient.chunk(len(grads))
    d_y = torch.mm(grads[0], copies[0])
    for grad, copy in zip(grads[1:], copies[1:], strict=True):
        addmm_(d_y, grad, copy)
    for grad, gradient in zip(grads, gradients, strict=True):
        addmm_(gradient, grad.t(), y)
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
