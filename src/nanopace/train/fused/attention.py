"""Picks the fastest attention kernel for this card and model shape by timing them.

torch has several, and the fastest depends on card, head width, length and precision. Timing them takes seconds, mostly
because their libraries have to load, so the result is stored for the next start.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from nanopace.errors import Message
from nanopace.train.kernels.timing import card_ms
from nanopace.train.models.gpt2 import ModelShape
from nanopace.train.private_torch import gradients_of
from nanopace.train.warm_start import recall, remember

_SWITCHES = {
    "cudnn": torch.backends.cuda.enable_cudnn_sdp,
    "flash": torch.backends.cuda.enable_flash_sdp,
    "efficient": torch.backends.cuda.enable_mem_efficient_sdp,
    "math": torch.backends.cuda.enable_math_sdp,
}
_TOPIC = "attention"
_TOKENS = 1 << 16  # per trial: enough to fill a card


def pick_attention(shape: ModelShape, batch_size: int, device: torch.device, dtype: torch.dtype) -> str:
    """Enable only the fastest kernel, and the plain one as its fallback; return the reason."""
    if device.type != "cuda":
        return Message("torch's own choice: this device has only one kernel")
    question = _question(shape, batch_size, device, dtype)
    known = recall(_TOPIC, question)
    if known is not None and known.partition(":")[0] in _SWITCHES:
        _switch_on(known.partition(":")[0], "math")
        return Message("{kernel}, measured before", kernel=known)
    found = _measured(shape, batch_size, device, dtype)
    remember(_TOPIC, question, found)
    _switch_on(found.partition(":")[0], "math")
    return found


def attention_backward(out: Tensor, q_k_v: Sequence[Tensor], d_out: Tensor) -> tuple[Tensor, ...]:
    """The gradients of queries, keys and values, from torch's own backward pass."""
    return gradients_of(q_k_v, out, d_out)


def _question(shape: ModelShape, batch_size: int, device: torch.device, dtype: torch.dtype) -> str:
    """Everything the result depends on."""
    card = torch.cuda.get_device_name(device)
    heads = f"{shape.n_head} heads of {shape.n_embd // shape.n_head}"
    size = f"{batch_size} x {shape.block_size}, {heads}, {shape.dropout}"
    return f"{card}, torch {torch.__version__}, {dtype}, {size}, in a graph"


def _measured(shape: ModelShape, batch_size: int, device: torch.device, dtype: torch.dtype) -> str:
    """The name of the fastest kernel, and the times."""
    times = {}
    for name in ("cudnn", "flash", "efficient"):
        _switch_on(name)
        milliseconds = _time(shape, batch_size, device, dtype)
        if milliseconds is not None:
            times[name] = milliseconds
    if not times:
        return "math: no fused kernel takes this shape"
    best = min(times, key=lambda name: times[name])
    others = ", ".join(f"{name} {ms:.2f} ms" for name, ms in times.items() if name != best)
    return f"{best}: {times[best]:.2f} ms per layer" + (f" ({others})" if others else "")


def _switch_on(*kept: str) -> None:
    for name, switch in _SWITCHES.items():
        switch(name in kept)


def _time(shape: ModelShape, batch_size: int, device: torch.device, dtype: torch.dtype) -> float | None:
    """Forward and backward of one layer's attention in ms; None if this kernel does not support the shape."""
    batch = max(1, min(batch_size, _TOKENS // shape.block_size))
    width = shape.n_embd // shape.n_head
    packed = torch.randn((batch, shape.block_size, 3, shape.n_head, width), device=device, dtype=dtype)
    q, k, v = (each.transpose(1, 2).requires_grad_() for each in packed.unbind(2))

    def pass_once() -> None:
        out = functional.scaled_dot_product_attention(q, k, v, dropout_p=shape.dropout, is_causal=True)
        attention_backward(out, (q, k, v), out.detach())

    try:
        return card_ms(pass_once, device)
    except RuntimeError:
        return None
