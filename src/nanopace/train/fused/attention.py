"""Attention by torch's kernels, and which of them.

torch has several, and the fastest depends on card, head width, length and precision. Timing them takes seconds, mostly
because their libraries have to load, so the result is stored for the next start.

With deterministic=True, every start has to pick the same one, and gradients must not depend on the order of atomic
additions, as cuDNN's do. So the choice is a rule, not a measurement; and on Hopper cards, the backward pass is our own
(kernels/attention.py), behind cuDNN's forward pass.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn import functional

from nanopace.errors import Message
from nanopace.train.kernels.timing import card_ms
from nanopace.train.models.gpt2 import ModelShape
from nanopace.train.private_torch import cudnn_attention, deterministic_algorithms, gradients_of
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
OURS = "cudnn and triton"  # cuDNN's forward pass, our backward pass
FIXED_ORDER = (OURS, "flash", "efficient", "math")  # gradients with the same bits every time, fastest first
_FORWARD = {OURS: "cudnn"}
_HOPPER = 9


class Picked(NamedTuple):
    """An attention kernel, and why."""

    kernel: str
    reason: str


_ONLY_ONE = Picked("math", Message("torch's own choice: this device has only one kernel"))


def pick_attention(shape: ModelShape, batch_size: int, device: torch.device, dtype: torch.dtype) -> Picked:
    """The fastest of torch's kernels. It is enabled, with the plain one as its fallback."""
    if device.type != "cuda":
        return _ONLY_ONE
    question = _question(shape, batch_size, device, dtype)
    known = _read(recall(_TOPIC, question))
    times = _measured(shape, batch_size, device, dtype) if known is None else known
    if known is None:
        remember(_TOPIC, question, ", ".join(f"{name} {ms:.2f}" for name, ms in times.items()) or _NONE)
    kernel, said = next(iter(times), "math"), _said(times)
    _switch_on(kernel, "math")
    return Picked(kernel, said if known is None else Message("{reason}, measured earlier", reason=said))


def pick_fixed_order(shape: ModelShape, device: torch.device, dtype: torch.dtype, *, ours: bool) -> Picked:
    """The first kernel in FIXED_ORDER that takes this shape. It is enabled, as above. `ours`: for passes of our own
    kernels, which can use our backward pass; it was measured on Hopper cards only."""
    if device.type != "cuda":
        return _ONLY_ONE
    ours = ours and dtype == torch.bfloat16 and torch.cuda.get_device_capability(device)[0] == _HOPPER
    usable = FIXED_ORDER if ours else FIXED_ORDER[1:]
    kernel = next(name for name in usable if name == "math" or _takes(name, shape, device, dtype))
    _switch_on(kernel, "math")
    return Picked(kernel, Message("{kernel}: the same bits every time", kernel=kernel))


def _takes(name: str, shape: ModelShape, device: torch.device, dtype: torch.dtype) -> bool:
    _switch_on(name)
    try:
        _trial(attention_by(name, shape.dropout, fixed_order=True), shape, 1, device, dtype)()
    except RuntimeError:
        return False
    return True


class Attention(Protocol):
    def forward(self, q: Tensor, k: Tensor, v: Tensor, scale: float | None = None) -> tuple[Tensor, Tensor | None]:
        """Causal attention, and the logarithms of the softmax's sums if the backward pass needs them."""

    def backward(
        self, out: Tensor, sums: Tensor | None, q_k_v: Sequence[Tensor], d_out: Tensor, scale: float | None = None
    ) -> tuple[Tensor, ...]:
        """The gradients of queries, keys and values."""


class TorchAttention:
    """torch's own attention with its own backward pass, whichever kernel is enabled."""

    def __init__(
        self, algorithms: Callable[[], AbstractContextManager[None]] = nullcontext, dropout: float = 0.0
    ) -> None:
        self._algorithms, self._dropout = algorithms, dropout

    def forward(self, q: Tensor, k: Tensor, v: Tensor, scale: float | None = None) -> tuple[Tensor, Tensor | None]:
        with torch.enable_grad(), self._algorithms():
            out = functional.scaled_dot_product_attention(q, k, v, dropout_p=self._dropout, is_causal=True, scale=scale)
        return out, None

    def backward(
        self,
        out: Tensor,
        sums: Tensor | None,  # noqa: ARG002
        q_k_v: Sequence[Tensor],
        d_out: Tensor,
        scale: float | None = None,  # noqa: ARG002
    ) -> tuple[Tensor, ...]:
        with self._algorithms():
            return gradients_of(q_k_v, out, d_out)


class CudnnThenOurs:
    """cuDNN's forward pass, and our backward pass, which needs the softmax's sums."""

    @torch.no_grad()
    def forward(self, q: Tensor, k: Tensor, v: Tensor, scale: float | None = None) -> tuple[Tensor, Tensor | None]:
        return cudnn_attention(q, k, v, scale)

    @torch.no_grad()
    def backward(
        self, out: Tensor, sums: Tensor | None, q_k_v: Sequence[Tensor], d_out: Tensor, scale: float | None = None
    ) -> tuple[Tensor, ...]:
        from nanopace.train.kernels.attention import attention_backward  # needs Triton

        assert sums is not None
        return attention_backward(d_out, q_k_v, out, sums, out.size(-1) ** -0.5 if scale is None else scale)


def attention_by(kernel: str, dropout: float = 0.0, *, fixed_order: bool) -> Attention:
    """With what was picked. Passes of our own kernels have no dropout."""
    if kernel == OURS:
        return CudnnThenOurs()
    return TorchAttention(deterministic_algorithms if fixed_order else nullcontext, dropout)


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
    torchs = {_FORWARD.get(name, name) for name in kept}
    for name, switch in _SWITCHES.items():
        switch(name in torchs)


def _time(shape: ModelShape, batch_size: int, device: torch.device, dtype: torch.dtype) -> float | None:
    """Forward and backward of one layer's attention in ms; None if this kernel does not support the shape."""
    trial = _trial(TorchAttention(dropout=shape.dropout), shape, batch_size, device, dtype)
    try:
        return card_ms(trial, device)
    except RuntimeError:
        return None


def _trial(
    attention: Attention, shape: ModelShape, batch_size: int, device: torch.device, dtype: torch.dtype
) -> Callable[[], None]:
    batch = max(1, min(batch_size, _TOKENS // shape.block_size))
    width = shape.n_embd // shape.n_head
    packed = torch.randn((batch, shape.block_size, 3, shape.n_head, width), device=device, dtype=dtype)
    q, k, v = (each.transpose(1, 2).requires_grad_() for each in packed.unbind(2))

    def pass_once() -> None:
        out, sums = attention.forward(q, k, v)
        attention.backward(out, sums, (q, k, v), out.detach())

    return pass_once
