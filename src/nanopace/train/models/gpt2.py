"""GPT-2 as nanoGPT defines it: the same modules, names, initial weights and arithmetic, so weights are interchangeable.

Training compiles `forward`: tokens and targets in, the mean loss out, with fixed shapes. Evaluation calls
`sequence_losses`; sampling calls `logits` with a `KVCache`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

INITIAL_STD = 0.02  # GPT-2's
ACTIVATIONS = {"gelu": "none", "gelu_tanh": "tanh"}  # torch's names for the approximations


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """Determines the shapes of the weights; the names are those of nanoGPT's `model_args`."""

    n_layer: int
    n_head: int
    n_embd: int
    vocab_size: int
    block_size: int
    bias: bool = False
    dropout: float = 0.0
    activation: str = "gelu"  # nanoGPT's; "gelu_tanh" is OpenAI's, and changes the logits by 1e-3
    recipe: str = "gpt2"  # which model (recipes.py)
    without: str = ""  # the recipe's ingredients that are left out

    @property
    def size(self) -> tuple[int, int, int, int]:
        """In the order that the functions of hardware/ take."""
        return self.n_layer, self.n_embd, self.vocab_size, self.block_size


class KVCache:
    """The keys and values of the tokens seen so far, in one allocation per layer."""

    def __init__(self, shape: ModelShape, batch: int, device: torch.device, dtype: torch.dtype) -> None:
        size = (shape.n_layer, 2, batch, shape.n_head, shape.block_size, shape.n_embd // shape.n_head)
        self._buffer = torch.zeros(size, device=device, dtype=dtype)
        self._last: dict[int, Tensor] = {}
        self.length = 0

    def extend(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Add these, and return all so far. `length` only advances after all layers."""
        end = self.length + keys.size(2)
        kept_keys, kept_values = self._buffer[layer, 0], self._buffer[layer, 1]
        kept_keys[:, :, self.length : end] = keys
        kept_values[:, :, self.length : end] = values
        return kept_keys[:, :, :end], kept_values[:, :, :end]

    def previous(self, layer: int, keys: Tensor) -> Tensor | None:
        """The key before these (batch, length, heads, width) as it was passed here; None if they are the first."""
        before = self._last.get(layer) if self.length else None
        self._last[layer] = keys[:, -1:]
        return before


def attend(
    q: Tensor, k: Tensor, v: Tensor, cache: KVCache | None, layer: int, *, dropout: float, scale: float | None = None
) -> Tensor:
    """Causal attention, also to the tokens in a cache. All shapes are (batch, heads, length, width of a head)."""
    if cache is None or cache.length == 0:
        if cache is not None:
            cache.extend(layer, k, v)
        return functional.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True, scale=scale)
    length, seen = q.size(2), cache.length
    k, v = cache.extend(layer, k, v)
    visible = None  # a single new token sees everything
    if length > 1:
        visible = torch.ones(length, seen + length, dtype=torch.bool, device=q.device).tril(seen)
    return functional.scaled_dot_product_attention(q, k, v, attn_mask=visible, scale=scale)


class LayerNorm(nn.Module):
    """torch's layer norm with an optional bias."""

    def __init__(self, width: int, bias: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        return functional.layer_norm(x, self.weight.shape, self.weight, self.bias, 1e-5)


class Attention(nn.Module):
    def __init__(self, shape: ModelShape, layer: int) -> None:
        super().__init__()
        self.c_attn = nn.Linear(shape.n_embd, 3 * shape.n_embd, bias=shape.bias)
        self.c_proj = nn.Linear(shape.n_embd, shape.n_embd, bias=shape.bias)
        self.resid_dropout = nn.Dropout(shape.dropout)
        self._heads, self._dropout, self._layer = shape.n_head, shape.dropout, layer

    def forward(self, x: Tensor, cache: KVCache | None = None) -> Tensor:
        batch, length, width = x.shape
        heads = self.c_attn(x).view(batch, length, 3, self._heads, width // self._heads)
        q, k, v = (part.transpose(1, 2) for part in heads.unbind(2))
        dropout = self._dropout if self.training else 0.0
        y = attend(q, k, v, cache, self._layer, dropout=dropout)
        y = y.transpose(1, 2).reshape(batch, length, width)
        return cast(Tensor, self.resid_dropout(self.c_proj(y)))


class MLP(nn.Module):
    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        self.c_fc = nn.Linear(shape.n_embd, 4 * shape.n_embd, bias=shape.bias)
        self.c_proj = nn.Linear(4 * shape.n_embd, shape.n_embd, bias=shape.bias)
        self.dropout = nn.Dropout(shape.dropout)
        self._approximate = ACTIVATIONS[shape.activation]

    def forward(self, x: Tensor) -> Tensor:
        return cast(Tensor, self.dropout(self.c_proj(functional.gelu(self.c_fc(x), approximate=self._approximate))))


class Block(nn.Module):
    def __init__(self, shape: ModelShape, layer: int) -> None:
        super().__init__()
        self.ln_1 = LayerNorm(shape.n_embd, shape.bias)
        self.attn = Attention(shape, layer)
        self.ln_2 = LayerNorm(shape.n_embd, shape.bias)
        self.mlp = MLP(shape)

    def forward(self, x: Tensor, cache: KVCache | None = None) -> Tensor:
        x = x + self.attn(self.ln_1(x), cache)
        return cast(Tensor, x + self.mlp(self.ln_2(x)))


class GPT(nn.Module):
    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        self.shape = shape
        self.transformer = nn.ModuleDict(
            {
                "wte": nn.Embedding(shape.vocab_size, shape.n_embd),
                "wpe": nn.Embedding(shape.block_size, shape.n_embd),
                "drop": nn.Dropout(shape.dropout),
                "h": nn.ModuleList(Block(shape, layer) for layer in range(shape.n_layer)),
                "ln_f": LayerNorm(shape.n_embd, shape.bias),
            }
        )
        self.lm_head = nn.Linear(shape.n_embd, shape.vocab_size, bias=False)
        self.transformer["wte"].weight = self.lm_head.weight  # tied: one table both reads and predicts tokens
        self._initialise()

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """The mean loss. A target of -1 does not count."""
        return self._losses(tokens, targets, "mean")

    def sequence_losses(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """The mean loss of each sequence, from which an evaluation computes its standard error."""
        return self._losses(tokens, targets, "none").view(targets.shape).mean(dim=1)

    def logits(self, tokens: Tensor, cache: KVCache | None = None) -> Tensor:
        """Logits for every token, shape (batch, length, vocabulary). The tokens follow those in the cache, if any."""
        return self.capped(self.lm_head(self._hidden(tokens, cache)))

    def next_logits(self, tokens: Tensor, cache: KVCache | None = None) -> Tensor:
        """Logits for the token after the last one, shape (batch, vocabulary)."""
        return self.capped(self.lm_head(self._hidden(tokens, cache)[:, -1]))

    def capped(self, logits: Tensor) -> Tensor:
        """Another recipe may bound them."""
        return logits

    def parameter_count(self) -> int:
        """nanoGPT's count: the tied head counts once, the position table does not."""
        positions = self.shape.block_size * self.shape.n_embd
        return sum(each.numel() for each in self.parameters()) - positions

    def _losses(self, tokens: Tensor, targets: Tensor, reduction: str) -> Tensor:
        logits = self.lm_head(self._hidden(tokens, None))
        logits = self.capped(logits.view(-1, logits.size(-1)))
        return functional.cross_entropy(logits, targets.reshape(-1), ignore_index=-1, reduction=reduction)

    def _hidden(self, tokens: Tensor, cache: KVCache | None) -> Tensor:
        seen = 0 if cache is None else cache.length
        end = seen + tokens.size(1)
        assert end <= self.shape.block_size, "more tokens than block_size"
        x = self._stream(tokens, torch.arange(seen, end, device=tokens.device), cache)
        if cache is not None:
            cache.length = end
        return x

    def _stream(self, tokens: Tensor, positions: Tensor, cache: KVCache | None) -> Tensor:
        """What the head reads, from embeddings to the last norm."""
        x = self.transformer["drop"](self.transformer["wte"](tokens) + self.transformer["wpe"](positions))
        for block in cast(nn.ModuleList, self.transformer["h"]):
            x = block(x, cache)
        return cast(Tensor, self.transformer["ln_f"](x))

    def _initialise(self) -> None:
        """Draw weights in nanoGPT's order, so that the same seed gives the same weights."""
        self.apply(_initialise)
        residual_std = INITIAL_STD / math.sqrt(2 * self.shape.n_layer)  # the residual stream sums 2 L projections
        for name, parameter in self.named_parameters():
            if name.endswith("c_proj.weight"):
                nn.init.normal_(parameter, std=residual_std)


def _initialise(module: nn.Module) -> None:
    if isinstance(module, (nn.Linear, nn.Embedding)):
        nn.init.normal_(module.weight, std=INITIAL_STD)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)
