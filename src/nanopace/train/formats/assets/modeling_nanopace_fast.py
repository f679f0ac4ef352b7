"""A model trained with nanopace's recipe `fast`, for transformers 5: `from_pretrained(..., trust_remote_code=True)`.

`ingredients` in config.json lists how the model differs from a GPT-2: rope, qk_norm, relu2, soft_cap, value_embeddings,
key_shift and xsa. Those of training (muon, normuon, trapezoid) make no difference here. All norms are RMS norms
without weights, and there are no biases. Heads have the shape (batch, heads, length, width).
"""

import math

import torch
from torch import nn
from torch.nn import functional
from transformers import DynamicCache, GenerationMixin, PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast
from transformers.utils import can_return_tuple

CAP = 15.0  # the largest magnitude of a logit
ROPE_BASE = 10000.0
HALF_ROPE_BASE = 1024.0  # if only half of a head rotates
SHARPNESS = 1.4  # of attention, if queries and keys are normed
VALUE_TABLES = 2
EPS = 1e-6


class NanopaceFastConfig(PreTrainedConfig):
    model_type = "nanopace_fast"
    keys_to_ignore_at_inference = ["past_key_values"]
    attribute_map = {
        "hidden_size": "n_embd",
        "num_hidden_layers": "n_layer",
        "num_attention_heads": "n_head",
        "max_position_embeddings": "n_positions",
    }

    def __init__(
        self,
        vocab_size=50304,
        n_positions=1024,
        n_layer=12,
        n_head=12,
        n_embd=768,
        dropout=0.0,
        ingredients=(),
        use_cache=True,
        tie_word_embeddings=True,
        **kwargs,
    ):
        self.vocab_size, self.n_positions = vocab_size, n_positions
        self.n_layer, self.n_head, self.n_embd = n_layer, n_head, n_embd
        self.dropout, self.ingredients, self.use_cache = dropout, list(ingredients), use_cache
        self.initializer_range = 0.02
        super().__init__(tie_word_embeddings=tie_word_embeddings, **kwargs)


def rms_norm(x):
    return functional.rms_norm(x, (x.size(-1),), eps=EPS)


def rotating(width):
    """How many pairs of a head's values rotate if half of them do: the first ones."""
    return (width // 2 + 1) // 2


def rope_angles(positions, width, half):
    """Cosine and sine for positions (batch, length), each (batch, 1, length, width / 2)."""
    pairs = torch.arange(width // 2, device=positions.device, dtype=torch.float32)
    if half:
        count = rotating(width)
        frequencies = HALF_ROPE_BASE ** (-pairs / max(1, count - 1)) * (pairs < count)
    else:
        frequencies = ROPE_BASE ** (-2 * pairs / width)
    angles = positions.float()[:, None, :, None] * frequencies
    return angles.cos(), angles.sin()


def apply_rope(x, cos, sin):
    cos, sin = cos.to(x.dtype), sin.to(x.dtype)
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


def shift_keys(k, padding):
    """Keys whose values that do not rotate come from the previous token; the first token of a text has its own."""
    width = k.size(-1)
    still = torch.arange(width, device=k.device) % (width // 2) >= rotating(width)
    if padding is not None:
        first = functional.pad(padding[:, :-1], (1, 0))
        still = still & ~first[:, None, :, None]
    return torch.where(still, torch.cat((k[:, :, :1], k[:, :, :-1]), dim=2), k)


def without_own_value(y, v, share):
    """Attention's output without a share of its part along the token's own value."""
    kind, y, v = y.dtype, y.float(), v.float()
    along = (y * v).sum(-1, keepdim=True) / (v.square().sum(-1, keepdim=True) + EPS)
    return (y - torch.tanh(share)[:, None, None] * along * v).to(kind)


def relu_squared(x):
    return functional.relu(x).square()


class Attention(nn.Module):
    def __init__(self, config, layer, gated):
        super().__init__()
        width, has = config.n_embd // config.n_head, config.ingredients
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd, bias=False)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd, bias=False)
        self.value_gate = nn.Parameter(torch.ones(config.n_head)) if gated else None
        self.own_share = nn.Parameter(torch.zeros(config.n_head)) if "xsa" in has else None
        self.resid_dropout = nn.Dropout(config.dropout)
        self.heads, self.width, self.dropout, self.layer = config.n_head, width, config.dropout, layer
        self.normed = "qk_norm" in has
        self.shifted = "key_shift" in has and (layer + 1) % min(4, config.n_layer) == 0
        self.scale = SHARPNESS / math.sqrt(width) if self.normed else None

    def forward(self, x, value, angles, visible, padding, cache):
        batch, length, width = x.shape
        q, k, v = self.c_attn(x).view(batch, length, 3, self.heads, self.width).permute(2, 0, 3, 1, 4)
        if self.normed:
            q, k = rms_norm(q), rms_norm(k)
        if angles is not None:
            q, k = apply_rope(q, *angles), apply_rope(k, *angles)
        if value is not None:
            value = value.view(batch, length, self.heads, self.width).transpose(1, 2)
            v = v + (self.value_gate[:, None, None] * value).to(v.dtype)
        keys, values = (k, v) if cache is None else cache.update(k, v, self.layer)
        if self.shifted:  # only here: the cache has the keys as they were, so that any of its tokens can be dropped
            keys = shift_keys(keys, padding)
        y = functional.scaled_dot_product_attention(
            q,
            keys,
            values,
            attn_mask=visible,
            dropout_p=self.dropout if self.training else 0.0,
            is_causal=visible is None and length > 1,
            scale=self.scale,
        )
        if self.own_share is not None:
            y = without_own_value(y, v, self.own_share)
        return self.resid_dropout(self.c_proj(y.transpose(1, 2).reshape(batch, length, width)))


class MLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.c_fc = nn.Linear(config.n_embd, 4 * config.n_embd, bias=False)
        self.c_proj = nn.Linear(4 * config.n_embd, config.n_embd, bias=False)
        self.dropout = nn.Dropout(config.dropout)
        self.activation = relu_squared if "relu2" in config.ingredients else functional.gelu

    def forward(self, x):
        return self.dropout(self.c_proj(self.activation(self.c_fc(x))))


class Block(nn.Module):
    def __init__(self, config, layer, gated):
        super().__init__()
        self.attn = Attention(config, layer, gated)
        self.mlp = MLP(config)

    def forward(self, x, value, angles, visible, padding, cache):
        x = x + self.attn(rms_norm(x), value, angles, visible, padding, cache)
        return x + self.mlp(rms_norm(x))


class NanopaceFastForCausalLM(PreTrainedModel, GenerationMixin):
    config_class = NanopaceFastConfig
    _tied_weights_keys = {"lm_head.weight": "transformer.wte.weight"}
    _supports_sdpa = True
    _no_split_modules = ["Block"]

    def __init__(self, config):
        super().__init__(config)
        has, layers, width = config.ingredients, config.n_layer, config.n_embd
        self.table_of = value_tables(layers) if "value_embeddings" in has else {}
        tables = {"wte": nn.Embedding(config.vocab_size, width)}
        if "rope" not in has:
            tables["wpe"] = nn.Embedding(config.n_positions, width)
        tables["wve"] = nn.ModuleList(nn.Embedding(config.vocab_size, width) for _ in set(self.table_of.values()))
        blocks = nn.ModuleList(Block(config, layer, layer in self.table_of) for layer in range(layers))
        self.transformer = nn.ModuleDict({**tables, "drop": nn.Dropout(config.dropout), "h": blocks})
        self.lm_head = nn.Linear(width, config.vocab_size, bias=False)
        self.post_init()

    def get_input_embeddings(self):
        return self.transformer["wte"]

    def set_input_embeddings(self, value):
        self.transformer["wte"] = value

    def get_output_embeddings(self):
        return self.lm_head

    def resize_token_embeddings(self, *_, **__):
        raise ValueError("this model also has value embeddings, so its vocabulary cannot be resized")

    @can_return_tuple
    def forward(
        self,
        input_ids,
        attention_mask=None,
        position_ids=None,
        past_key_values=None,
        labels=None,
        use_cache=None,
        output_hidden_states=None,
        logits_to_keep=0,
        **kwargs,
    ):
        if use_cache is None:
            use_cache = self.config.use_cache and not self.training
        if use_cache and past_key_values is None:
            past_key_values = DynamicCache()
        positions, visible, padding = self._view(input_ids, attention_mask, position_ids, past_key_values)
        streams = self._streams(input_ids, positions, visible, padding, past_key_values)
        kept = slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep
        logits = self.lm_head(streams[-1][:, kept])
        if "soft_cap" in self.config.ingredients:
            logits = CAP * torch.tanh(logits.float() / CAP)
        loss = None
        if labels is not None:
            loss = self.loss_function(logits=logits, labels=labels, vocab_size=self.config.vocab_size, **kwargs)
        return CausalLMOutputWithPast(
            loss=loss,
            logits=logits,
            past_key_values=past_key_values,
            hidden_states=tuple(streams) if output_hidden_states else None,
        )

    def _view(self, input_ids, attention_mask, position_ids, cache):
        """The tokens' positions; which keys each one sees, None for all until itself; which keys are padding."""
        if cache is not None and cache.is_compileable:
            raise ValueError("this model needs a cache that grows, such as DynamicCache")
        length = input_ids.size(1)
        total = length + (0 if cache is None else cache.get_seq_length())
        if total > self.config.n_positions:
            raise ValueError(f"this model reads at most {self.config.n_positions} tokens, not {total}")
        if attention_mask is not None and attention_mask.shape != (input_ids.size(0), total):
            raise ValueError(f"attention_mask must have the shape {(input_ids.size(0), total)}: cached tokens count")
        if attention_mask is not None and bool(attention_mask.all()):
            attention_mask = None
        every = torch.arange(total, device=input_ids.device)
        new = every[-length:]
        if attention_mask is None:
            whole = length in (1, total)  # what torch's causal attention can express
            visible, padding = None if whole else every <= new[:, None], None
            positions = new[None]
        else:
            padding = attention_mask == 0
            seen = ~padding[:, None] | (every == new[:, None])  # padding sees itself, as a row must see something
            visible = ((every <= new[:, None]) & seen)[:, None]
            positions = ((~padding).cumsum(-1) - 1).clamp(min=0)[:, -length:]
        return positions if position_ids is None else position_ids, visible, padding

    def _streams(self, input_ids, positions, visible, padding, cache):
        """The residual stream before each layer, and the normed one after the last."""
        config, angles = self.config, None
        x = self.transformer["wte"](input_ids)
        if "rope" in config.ingredients:
            angles = rope_angles(positions, config.n_embd // config.n_head, "key_shift" in config.ingredients)
        else:
            x = x + self.transformer["wpe"](positions)
        x = self.transformer["drop"](rms_norm(x))
        values = [table(input_ids) for table in self.transformer["wve"]]
        streams = []
        for layer, block in enumerate(self.transformer["h"]):
            streams.append(x)
            value = values[self.table_of[layer]] if layer in self.table_of else None
            x = block(x, value, angles, visible, padding, cache)
        return [*streams, rms_norm(x)]


def value_tables(n_layer):
    """Which table each layer mixes into its values: the first layers have one each, and the last ones share them."""
    tables = min(VALUE_TABLES, max(1, n_layer // 2))
    last = {n_layer - tables + table: table for table in range(tables)}
    return {**last, **{layer: layer for layer in range(tables)}}
