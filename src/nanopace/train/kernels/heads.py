"""Queries, keys and values lie in one matrix, as they come out of one product, and so do their gradients."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional


def attend(packed: Tensor, batch: int, heads: int) -> Tensor:
    """Causal attention: rows of [queries, keys, values] to rows of what the heads found."""
    rows, width = packed.shape
    q, k, v = _Split.apply(packed, batch, heads)
    found = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    return found.transpose(1, 2).reshape(rows, width // 3)


class _Split(torch.autograd.Function):
    """Three views. torch would put their gradients together in four passes; this is one."""

    @staticmethod
    def forward(ctx: Any, packed: Tensor, batch: int, heads: int) -> tuple[Tensor, Tensor, Tensor]:
        rows, width = packed.shape
        parts = packed.view(batch, rows // batch, 3, heads, width // (3 * heads))
        q, k, v = (each.transpose(1, 2) for each in parts.unbind(2))
        return q, k, v

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, None, None]:
        return torch.cat([each.transpose(1, 2).flatten(2).flatten(0, 1) for each in slopes], dim=1), None, None
