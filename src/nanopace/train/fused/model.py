"""Forward and backward pass of a GPT as a sequence of kernels: what both recipes' models share.

Neither autograd nor torch.compile is involved. Matrix products use bfloat16 copies, refreshed every step; the residual
stream is bfloat16, too. Every other pass over the activations, except attention, is one of our own kernels. The
products themselves accumulate the weights' gradients in float32.

The residual stream is one buffer: attention and MLP add to it in place, within their last matrix product.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

from nanopace.memory_ladder import MEMORY_STEPS, on_host, recomputed
from nanopace.train.fused.attention import Attention, TorchAttention
from nanopace.train.fused.matrix import Away, Matrix, weight_of
from nanopace.train.fused.step_in_backward import StepInBackward
from nanopace.train.kernels.activation import gelu, gelu_backward
from nanopace.train.kernels.addmm import addmm_
from nanopace.train.kernels.fp8 import GRADIENT_SCALE
from nanopace.train.kernels.head import head_gradients, head_losses
from nanopace.train.kernels.relu2 import relu2, relu2_backward
from nanopace.train.kernels.segments import SortedTokens, sort_tokens
from nanopace.train.models.gpt2 import GPT
from nanopace.train.models.recipes import block_matrices
from nanopace.train.private_torch import zero_all


class Norm(NamedTuple):
    """One of the norms in kernels/norm.py, forward and backward."""

    forward: Callable[[Tensor, Tensor | None], tuple[Tensor, Tensor]]
    backward: Callable[[Tensor, Tensor, Tensor, Tensor | None, Tensor | None, Tensor | None], Tensor]


class Layer(NamedTuple):
    """The weights of one block."""

    qkv: Matrix
    attn_proj: Matrix
    mlp_fc: Matrix
    mlp_proj: Matrix
    value_table: nn.Parameter | None = None
    value_gate: nn.Parameter | None = None
    own_share: nn.Parameter | None = None
    shifts_keys: bool = False

    @property
    def matrices(self) -> list[Matrix]:
        return [self.qkv, self.attn_proj, self.mlp_fc, self.mlp_proj]


class SavedAttention(NamedTuple):
    """Input and output of attention, and what its backward pass needs besides."""

    packed: Tensor  # rows of [queries, keys, values]; q_k_v are views of it
    q_k_v: tuple[Tensor, Tensor, Tensor]
    out: Tensor
    sums: Tensor | None = None  # logarithms of the softmax's sums; None: autograd has a graph
    factors: Tensor | None = None  # of the queries' and keys' norms


class Activations(NamedTuple):
    """What the backward pass needs from one layer's forward pass; None means it is recomputed."""

    y_1: Tensor
    factor_1: Tensor
    attention: SavedAttention | None
    y_2: Tensor
    factor_2: Tensor
    h: Tensor | None  # the input of GELU; ReLU squared needs only its output
    g: Tensor | None


class Stream(Protocol):
    """What is done around each layer where some of it is in the host's memory (train/host/layers.py)."""

    def zero_grad(self) -> None: ...

    def before_forward(self, number: int) -> None: ...

    def after_forward(self, number: int) -> None: ...

    def stash(self, number: int, saved: Activations) -> Activations:
        """What is left of them on the card."""

    def before_backward(self, number: int, saved: Activations) -> Activations:
        """All of them again."""

    def after_backward(self, number: int) -> None: ...


class Fused(ABC):
    """Computes with a model's weights; that model is still the one that is trained, saved and sampled from. Gradients
    stay at the same addresses from step to step.

    `steps` of the memory ladder determine which activations are recomputed in the backward pass instead of saved, and
    whether the matrices of the blocks are in the host's memory (train/host).
    """

    release: StepInBackward | None = None  # uses each gradient as soon as it is ready; None: they accumulate
    attention: Attention = TorchAttention()
    stream: Stream | None = None  # brings what a layer needs from the host's memory; None: all of it is here
    layers: Sequence[Layer]
    _head: Matrix
    _order: SortedTokens  # of the micro-batch at hand

    def __init__(
        self, model: GPT, steps: Collection[str], norm: Norm, *, relu2: bool = False, cap: float | None = None
    ) -> None:
        self._recompute = recomputed(steps)
        self._norm, self._relu2, self._cap = norm, relu2, cap
        self._tokens = weight_of(model.transformer["wte"])
        self._positions = weight_of(model.transformer["wpe"]) if "wpe" in model.transformer else None
        self._weights = list(model.parameters())
        self.matrices: list[Matrix] = []
        card, meta = self._tokens.device, torch.device("meta")
        places = ["host_weights" in steps, "host_gradients" in steps]
        self._away = Away(*(meta if away else card for away in places)) if on_host(steps) else None
        away = set(block_matrices(model).values()) if on_host(steps) else set()
        for each in self._weights:
            each.grad = None if each in away else torch.zeros_like(each)

    def _set_matrices(self, layers: Sequence[Layer], head: Matrix) -> None:
        """Called once the weights have gradients, because the matrices use them."""
        self.layers, self._head = layers, head
        self.matrices = [*(each for layer in layers for each in layer.matrices), head]
        self._fp8_backward = any(each.fp8_weight is not None for each in self.matrices)
        self.refresh_copies()

    def refresh_copies(self) -> None:
        """Refresh the matrices' copies after the weights have changed."""
        for each in self.matrices:
            if not each.away:
                each.refresh_copies()

    def climb(self) -> str | None:
        """Recompute more from now on, and return what; None if there is nothing left to save."""
        more = next((step for step in recomputed(MEMORY_STEPS) if step not in self._recompute), None)
        if more is not None:
            self._recompute = recomputed([more])
        return more

    def zero_grad(self) -> None:
        """Zero the gradients in place."""
        gradients = [each.grad for each in self._weights if each.grad is not None]
        own = [each.gradient for each in self.matrices if each.shared or (each.away and each.gradient_stays)]
        zero_all(gradients + own)
        if self.stream is not None:
            self.stream.zero_grad()

    def finish(self) -> None:
        """After the last micro-batch of a step, turn the accumulated gradients into those of the original weights."""
        for each in self.matrices:
            if not each.away:
                each.unfold()

    @torch.no_grad()
    def gradients(self, tokens: Tensor, targets: Tensor, share: float = 1.0) -> Tensor:
        """The mean loss; `share` times its gradient is accumulated, or released."""
        self._order = sort_tokens(tokens)
        x, factors = self._embed(tokens)
        embedded = None
        if factors is not None:  # the norm's backward pass needs x as it is now
            embedded, x = x, x.clone()
        saved = [self._pass_forward(number, x, tokens) for number in range(len(self.layers))]
        head, y8 = self._head, self._head.empty_fp8(x)
        y, factor = self._norm.forward(x, y8)
        del x  # free it early
        loss, d_y = head_gradients(
            y, head.copy, head.gradient, targets.reshape(-1), share, self._cap, x8=y8, weight8=head.fp8_weight
        )
        del y8
        if self.release is not None:
            self.release.begin_step(loss)
        scale = share / (targets >= 0).sum() / GRADIENT_SCALE if self._fp8_backward else None  # of gradients in 8 bits
        d_x8 = self.layers[-1].mlp_proj.empty_fp8_gradient(len(d_y))  # every layer writes it for the next
        d_x = self._norm.backward(d_y, y, factor, None, d_x8, scale)
        del y, d_y
        for number in reversed(range(len(self.layers))):
            layer, kept = self.layers[number], saved.pop()
            if self.stream is not None:
                kept = self.stream.before_backward(number, kept)
            self._backward(layer, kept, d_x, d_x8, tokens, scale)
            del kept
            if self.stream is not None:
                self.stream.after_backward(number)
            if self.release is not None:
                self.release.update(layer.matrices)
        self._embed_backward(d_x, tokens, embedded, factors)
        if self.release is not None:
            self.release.update([head], [] if self._positions is None else [self._positions])
        return loss

    @torch.no_grad()
    def sequence_losses(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """The mean loss of each sequence."""
        x, _ = self._embed(tokens)
        for number, layer in enumerate(self.layers):
            if self.stream is not None:
                self.stream.before_forward(number)
            self._forward(layer, x, tokens, fp8=False)
            if self.stream is not None:
                self.stream.after_forward(number)
        losses = head_losses(self._norm.forward(x, None)[0], self._head.copy, targets.reshape(-1), self._cap)
        return losses.view(targets.shape).mean(dim=1)

    def _pass_forward(self, number: int, x: Tensor, tokens: Tensor) -> Activations:
        if self.stream is None:
            return self._forward(self.layers[number], x, tokens, fp8=True)
        self.stream.before_forward(number)
        saved = self._forward(self.layers[number], x, tokens, fp8=True)
        self.stream.after_forward(number)
        return self.stream.stash(number, saved)

    def _forward(self, layer: Layer, x: Tensor, tokens: Tensor, *, fp8: bool) -> Activations:
        """Add this layer to the residual stream x. With `fp8`, the products chosen for it are in 8 bits."""
        y8 = layer.qkv.empty_fp8(x) if fp8 else None
        y_1, factor_1 = self._norm.forward(x, y8)
        attention = self._attend(layer, layer.qkv.product(y_1, y8), tokens)
        addmm_(x, self._attended(layer, attention), layer.attn_proj.copy.t())
        y8 = layer.mlp_fc.empty_fp8(x) if fp8 else None
        y_2, factor_2 = self._norm.forward(x, y8)
        hidden = layer.mlp_fc.product(y_2, y8)
        del y8
        h, g = (None, relu2(hidden)) if self._relu2 else (hidden, gelu(hidden))
        addmm_(x, g, layer.mlp_proj.copy.t())
        return Activations(
            y_1,
            factor_1,
            None if "attention" in self._recompute else attention,
            y_2,
            factor_2,
            None if "hidden" in self._recompute else h,
            None if ("hidden" if self._relu2 else "activation") in self._recompute else g,
        )

    def _backward(
        self,
        layer: Layer,
        saved: Activations,
        d_x: Tensor,
        d_x8: Tensor | None,
        tokens: Tensor,
        scale: Tensor | None,
    ) -> None:
        """Add this layer's part of the gradient to d_x. d_x8, if it is given, is d_x divided by `scale`, in 8 bits."""
        self._backward_mlp(layer, saved, d_x, d_x8, scale)
        self._backward_attention(layer, saved, d_x, d_x8, tokens, scale)

    def _backward_mlp(
        self, layer: Layer, saved: Activations, d_x: Tensor, d_x8: Tensor | None, scale: Tensor | None
    ) -> None:
        h, g = saved.h, saved.g
        if h is None and g is None:
            hidden = layer.mlp_fc.product(saved.y_2)
            h, g = (None, relu2(hidden)) if self._relu2 else (hidden, None)
        d_g = layer.mlp_proj.input_gradient(d_x, d_x8, scale)
        d8 = layer.mlp_fc.empty_fp8_gradient(len(d_x))
        if h is None:
            assert g is not None
            addmm_(layer.mlp_proj.gradient, d_x.t(), g)
            d_h = relu2_backward(d_g, g, d8, scale)
        else:
            d_h, g = gelu_backward(d_g, h, g, d8, scale)
            addmm_(layer.mlp_proj.gradient, d_x.t(), g)
        addmm_(layer.mlp_fc.gradient, d_h.t(), saved.y_2)
        self._norm.backward(layer.mlp_fc.input_gradient(d_h, d8, scale), saved.y_2, saved.factor_2, d_x, None, None)

    @abstractmethod
    def _embed(self, tokens: Tensor) -> tuple[Tensor, Tensor | None]:
        """The initial residual stream, and the norm's factors if there is a norm."""

    @abstractmethod
    def _embed_backward(self, d_x: Tensor, tokens: Tensor, embedded: Tensor | None, factors: Tensor | None) -> None:
        """Add to the tables' gradients. `embedded` and `factors` come from `_embed`; None if it has no norm."""

    @abstractmethod
    def _attend(self, layer: Layer, packed: Tensor, tokens: Tensor) -> SavedAttention:
        """What attention finds, and all that its backward pass needs."""

    def _attended(self, layer: Layer, attention: SavedAttention) -> Tensor:  # noqa: ARG002
        """What attention passes on, one row per token."""
        return rows_of(attention.out)

    @abstractmethod
    def _backward_attention(
        self,
        layer: Layer,
        saved: Activations,
        d_x: Tensor,
        d_x8: Tensor | None,
        tokens: Tensor,
        scale: Tensor | None,
    ) -> None:
        """Add attention's part of the gradient to d_x, and write the sum to d_x8."""


def rows_of(heads: Tensor) -> Tensor:
    """One row per token, from attention's (batch, heads, length, width of a head)."""
    return heads.detach().transpose(1, 2).flatten(2).flatten(0, 1)


def gradient_of(weight: Tensor | None) -> Tensor:
    assert weight is not None
    assert weight.grad is not None, "gradients are there from the beginning"
    return weight.grad
