"""The model of recipe `fast` in plain torch: a GPT that reaches a loss in fewer tokens.

Each difference from GPT-2 has a name that `without` accepts (recipes.py describes them). All norms are RMS norms
without weights, and there are no biases. The small functions at the top are the arithmetic that a kernel can take over:
tensors in, tensors out, and nothing else.
"""

from __future__ import annotations

import math
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from nanopace.knob_values import ingredients
from nanopace.train.models.gpt2 import GPT, INITIAL_STD, KVCache, ModelShape, attend

CAP = 15.0  # the largest magnitude of a logit: Gemma 2 has 30, modded-nanogpt found 15 better
ROPE_BASE = 10000.0
HALF_ROPE_BASE = 1024.0  # if only half of a head rotates: modded-nanogpt's
SHARPNESS = 1.4  # normed queries and keys cannot sharpen by themselves; nanochat has 1.44, modded-nanogpt 1.36
VALUE_TABLES = 2  # of vocab_size x n_embd each: every one takes as much memory as the head

_NORM_EPS = 1e-6
_SHIFTED_EVERY = 4  # layers


def rms_norm(x: Tensor) -> Tensor:
    """Scale to a root mean square of 1 over the last dimension."""
    return functional.rms_norm(x, (x.size(-1),), eps=_NORM_EPS)


def residual_norm(x: Tensor, branch: Tensor) -> tuple[Tensor, Tensor]:
    """The stream with a branch added, and its norm."""
    x = x + branch
    return x, rms_norm(x)


def rope_angles(positions: Tensor, width: int, *, half: bool) -> tuple[Tensor, Tensor]:
    """Cosine and sine, each (length, width / 2). Only a few KB, so they are recomputed, not kept. With `half`, the
    angles after `rotating(width)` are 0."""
    pairs = torch.arange(width // 2, device=positions.device, dtype=torch.float32)
    if half:
        count = rotating(width)
        frequencies = HALF_ROPE_BASE ** (-pairs / max(1, count - 1)) * (pairs < count)
    else:
        frequencies = ROPE_BASE ** (-2 * pairs / width)
    angles = positions.float()[:, None] * frequencies
    return angles.cos(), angles.sin()


def rotating(width: int) -> int:
    """How many pairs of a head's values rotate if half of them do: the first ones."""
    return (width // 2 + 1) // 2


def apply_rope(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate (batch, length, any, heads, width): value i of the first half pairs with value i of the second."""
    cos, sin = (each[:, None, None].to(x.dtype) for each in (cos, sin))
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


def queries_and_keys(packed: Tensor, angles: tuple[Tensor, Tensor] | None, *, normed: bool) -> Tensor:
    """Queries and keys of packed heads (batch, length, 3, heads, width), normed and rotated."""
    both = packed[:, :, :2]
    if normed:
        both = rms_norm(both)
    return both if angles is None else apply_rope(both, *angles)


def shift_keys(k: Tensor, before: Tensor | None = None) -> Tensor:
    """Keys (batch, length, heads, width) whose values that do not rotate come from the previous token: what follows a
    token can be looked up by it. `before` is the key before the first; None: the first one's own."""
    width = k.size(-1)
    still = torch.arange(width, device=k.device) % (width // 2) >= rotating(width)
    previous = torch.cat((k[:, :1] if before is None else before, k[:, :-1]), dim=1)
    return torch.where(still, previous, k)


def without_own_value(y: Tensor, v: Tensor, share: Tensor) -> Tensor:
    """Attention's output (..., heads, width) without a share of its part along the token's own value, which the
    residual stream has already. tanh bounds the share of each head."""
    y, v = y.float(), v.float()
    along = (y * v).sum(-1, keepdim=True) / (v.square().sum(-1, keepdim=True) + _NORM_EPS)
    return y - torch.tanh(share)[:, None] * along * v


def relu_squared(x: Tensor) -> Tensor:
    return functional.relu(x).square()


def soft_cap(logits: Tensor) -> Tensor:
    """Keep logits within CAP, and almost unchanged near 0. tanh and a shifted sigmoid differ by a constant, which a
    softmax ignores; tanh keeps the logits on their usual scale."""
    return CAP * torch.tanh(logits.float() / CAP)


class FastAttention(nn.Module):
    def __init__(self, shape: ModelShape, layer: int, *, gated: bool) -> None:
        super().__init__()
        self.c_attn = nn.Linear(shape.n_embd, 3 * shape.n_embd, bias=False)
        self.c_proj = nn.Linear(shape.n_embd, shape.n_embd, bias=False)
        self.value_gate = nn.Parameter(torch.ones(shape.n_head)) if gated else None
        has = ingredients(shape.recipe, shape.without)
        self.own_share = nn.Parameter(torch.zeros(shape.n_head)) if "xsa" in has else None
        self.resid_dropout = nn.Dropout(shape.dropout)
        self._heads, self._dropout, self._layer = shape.n_head, shape.dropout, layer
        self._normed = "qk_norm" in has
        self._shifted = "key_shift" in has and shifts_keys(layer, shape.n_layer)
        self._scale = SHARPNESS / math.sqrt(shape.n_embd // shape.n_head) if self._normed else None

    def forward(
        self, x: Tensor, value: Tensor | None, angles: tuple[Tensor, Tensor] | None, cache: KVCache | None
    ) -> Tensor:
        """`value` is the token's value embedding, (batch, length, n_embd)."""
        batch, length, width = x.shape
        packed = self.c_attn(x).view(batch, length, 3, self._heads, width // self._heads)
        q, k = queries_and_keys(packed, angles, normed=self._normed).unbind(2)
        if self._shifted:
            k = shift_keys(k, None if cache is None else cache.previous(self._layer, k))
        v = packed[:, :, 2]
        if value is not None and self.value_gate is not None:
            v = v + (self.value_gate[:, None] * value.view_as(v)).to(v.dtype)
        dropout = self._dropout if self.training else 0.0
        heads = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        y = attend(*heads, cache, self._layer, dropout=dropout, scale=self._scale).transpose(1, 2)
        if self.own_share is not None:
            y = without_own_value(y, v, self.own_share).to(v.dtype)
        return cast(Tensor, self.resid_dropout(self.c_proj(y.reshape(batch, length, width))))


class FastMLP(nn.Module):
    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        self.c_fc = nn.Linear(shape.n_embd, 4 * shape.n_embd, bias=False)
        self.c_proj = nn.Linear(4 * shape.n_embd, shape.n_embd, bias=False)
        self.dropout = nn.Dropout(shape.dropout)
        self._activation = relu_squared if "relu2" in ingredients(shape.recipe, shape.without) else functional.gelu

    def forward(self, x: Tensor) -> Tensor:
        return cast(Tensor, self.dropout(self.c_proj(self._activation(self.c_fc(x)))))


class FastBlock(nn.Module):
    def __init__(self, shape: ModelShape, layer: int, *, gated: bool) -> None:
        super().__init__()
        self.attn = FastAttention(shape, layer, gated=gated)
        self.mlp = FastMLP(shape)

    def forward(
        self, x: Tensor, value: Tensor | None, angles: tuple[Tensor, Tensor] | None, cache: KVCache | None
    ) -> Tensor:
        x, normed = residual_norm(x, self.attn(rms_norm(x), value, angles, cache))
        return cast(Tensor, x + self.mlp(normed))


class FastGPT(GPT):
    """A GPT with its own blocks, cap and initial weights."""

    def __init__(self, shape: ModelShape) -> None:
        nn.Module.__init__(self)
        self.shape = shape
        self._has = ingredients(shape.recipe, shape.without)
        self._table_of = value_tables(shape.n_layer) if "value_embeddings" in self._has else {}
        tables = {"wte": nn.Embedding(shape.vocab_size, shape.n_embd)}
        if "rope" not in self._has:
            tables["wpe"] = nn.Embedding(shape.block_size, shape.n_embd)
        blocks = (FastBlock(shape, layer, gated=layer in self._table_of) for layer in range(shape.n_layer))
        values = (nn.Embedding(shape.vocab_size, shape.n_embd) for _ in set(self._table_of.values()))
        self.transformer = nn.ModuleDict(
            {
                **tables,
                "wve": nn.ModuleList(values),
                "drop": nn.Dropout(shape.dropout),
                "h": nn.ModuleList(blocks),
            }
        )
        self.lm_head = nn.Linear(shape.n_embd, shape.vocab_size, bias=False)
        self.transformer["wte"].weight = self.lm_head.weight  # tied, as in GPT-2
        self._initialise()

    def capped(self, logits: Tensor) -> Tensor:
        return soft_cap(logits) if "soft_cap" in self._has else logits

    def parameter_count(self) -> int:
        """The weights that multiply a token, including the head: the N in 6 N. Tables are only looked up."""
        inside = sum(each.numel() for each in self.transformer["h"].parameters() if each.dim() == 2)
        return inside + self.lm_head.weight.numel()

    def _stream(self, tokens: Tensor, positions: Tensor, cache: KVCache | None) -> Tensor:
        x, angles = self.transformer["wte"](tokens), None
        if "rope" in self._has:
            angles = rope_angles(positions, self.shape.n_embd // self.shape.n_head, half="key_shift" in self._has)
        else:
            x = x + self.transformer["wpe"](positions)
        x = self.transformer["drop"](rms_norm(x))
        values = [table(tokens) for table in cast(nn.ModuleList, self.transformer["wve"])]
        for layer, block in enumerate(cast(nn.ModuleList, self.transformer["h"])):
            table = self._table_of.get(layer)
            x = block(x, None if table is None else values[table], angles, cache)
        return rms_norm(x)

    def _initialise(self) -> None:
        width = self.shape.n_embd
        inside = 0.5 / math.sqrt(width)  # 0.018 at GPT-2's width; GPT-2 has 0.02 at every width
        residual = INITIAL_STD / math.sqrt(2 * self.shape.n_layer)
        for name, weight in self.named_parameters():
            if name.endswith("c_proj.weight"):
                nn.init.normal_(weight, std=residual)
            elif weight.dim() < 2:
                continue
            elif name.startswith("transformer.h."):
                nn.init.normal_(weight, std=inside)
            elif name.startswith("transformer.wve."):
                nn.init.normal_(weight, std=1 / math.sqrt(width))
            else:
                nn.init.normal_(weight, std=INITIAL_STD)


def shifts_keys(layer: int, n_layer: int) -> bool:
    """Every fourth layer; in a shallower model, the last."""
    return (layer + 1) % min(_SHIFTED_EVERY, n_layer) == 0


def value_tables(n_layer: int) -> dict[int, int]:
    """Which table each layer mixes into its values: the first layers have one each, and the last ones share them."""
    tables = min(VALUE_TABLES, max(1, n_layer // 2))
    first = {layer: layer for layer in range(tables)}
    last = {n_layer - tables + table: table for table in range(tables)}
    return {**last, **first}
