"""Picks the fastest attention kernel for this card and model shape by timing them.

torch has several, and the fastest depends on card, head width, length and precision. Timing them takes seconds, mostly
because their libraries have to load, so the result is stored for the next start.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

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
_REMEMBERED = re.compile(r"(cudnn|flash|efficient) ([0-9]{1,6}\.[0-9]{2})")
_NONE = "none"  # of them takes the shape
_TOKENS = 1 << 16  # per trial: enough to fill a card


def pick_attention(shape: ModelShape, batch_size: int, device: torch.device, dtype: torch.dtype) -> str:
    """Enable only the fastest kernel, and the plain one as its fallback; return the reason."""
    if device.type != "cuda":
        return Message("torch's own choice: this device has only one kernel")
    question = _question(shape, batch_size, device, dtype)
    known = _read(recall(_TOPIC, question))
    times = _measured(shape, batch_size, device, dtype) if known is None else known
    if known is None:
        remember(_TOPIC, question, ", ".join(f"{name} {ms:.2f}" for name, ms in times.items()) or _NONE)
    _switch_on(next(iter(times), "math"), "math")
    return _said(times) if known is None else Message("{reason}, measured earlier", reason=_said(times))


def attention_backward(out: Tensor, q_k_v: Sequence[Tensor], d_out: Tensor) -> tuple[Tensor, ...]:
    """The gradients of queries, keys and values, from torch's own backward pass."""
    return gradients_of(q_k_v, out, d_out)


def _question(shape: ModelShape, batch_size: int, device: torch.device, dtype: torch.dtype) -> str:
    """Everything the result depends on."""
    card = torch.cuda.get_device_name(device)
    heads = f"{shape.n_head} heads of {shape.n_embd // shape.n_head}"
    size = f"{batch_size} x {shape.block_size}, {heads}, {shape.dropout}"
    return f"{card}, torch {torch.__version__}, {dtype}, {size}, in a graph"


def _read(written: str | None) -> dict[str, float] | None:
    """The times from an earlier start; None if there are none, or not as `pick_attention` writes them."""
    if written is None or written == _NONE:
        return None if written is None else {}
    found = [_REMEMBERED.fullmatch(each) for each in written.split(", ")]
    return {each[1]: float(each[2]) for each in found if each} if all(found) else None


def _said(times: Mapping[str, float]) -> Message:
    if not times:
        return Message("math: no fused kernel supports this shape")
    (best, ms), *others = times.items()
    if not others:
        return Message("{kernel}: {ms:.2f} ms per layer", kernel=best, ms=ms)
    listed = Message.joined(", ", (Message("{kernel} {ms:.2f} ms", kernel=name, ms=other) for name, other in others))
    return Message("{kernel}: {ms:.2f} ms per layer ({others})", kernel=best, ms=ms, others=listed)


def _measured(shape: ModelShape, batch_size: int, device: torch.device, dtype: torch.dtype) -> dict[str, float]:
    """The time of each kernel that supports this shape, the fastest first."""
    times = {}
    for name in ("cudnn", "flash", "efficient"):
        _switch_on(name)
        milliseconds = _time(shape, batch_size, device, dtype)
        if milliseconds is not None:
            times[name] = milliseconds
    return dict(sorted(times.items(), key=lambda item: item[1]))


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
