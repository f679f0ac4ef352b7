"""Matrix products in 8 bits whose scales are known beforehand, and only those that are faster that way on this card.

Forward, it is the products after norms: a norm's output is never larger than the square root of its width, so its
kernel writes 8 bits along with the bfloat16 that the weights' gradients need. Backward, it is the gradients of those
norms' outputs, and of the MLP's activations. The gradient of a logit is never larger than its token's share of the
loss. Other gradients have no such bound, but the format for gradients spans 32 powers of two, and holds them with one
fixed scale. The weights' own gradients stay in bfloat16, because 8-bit products would need both factors transposed.

Matrices are cast once per step, each scaled by its largest value. All scales are tensors on the device, so nothing
waits for them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

import torch
from torch import Tensor

from nanopace.errors import Message
from nanopace.hardware.memory import rows_at_a_time
from nanopace.train.kernels.timing import card_ms
from nanopace.train.models.gpt2 import ModelShape
from nanopace.train.private_torch import scaled_mm
from nanopace.train.warm_start import recall, remember

FP8 = torch.float8_e4m3fn
LARGEST = 448.0  # value that FP8 can hold
FP8_GRADIENT = torch.float8_e5m2  # less precise, but it spans 32 powers of two
PRODUCTS = ("qkv", "into", "head")  # queries, keys and values; into the MLP; logits
# Gradients inside the model, relative to a token's share of the loss, times this: 56 is the largest they can be, and
# below 6e-8, they lose precision.
GRADIENT_SCALE = 1024.0
_SMALLEST = 1e-12  # lower bound of a matrix's largest value: avoids 0 / 0
_WORTH_IT = 1.05  # times the speed of bfloat16: below that, casting the weights may cost more than it gains
_WIDE = 768  # from here on, each product was at least 1.15 times as fast (docs/decisions/0016-fp8.md)
_TOPIC = "fp8"
_ROWS = 1 << 15  # per trial: enough to fill a card
_CALLS = 4  # per trial, in a row


def scale_after_norm(width: int) -> float:
    """The factor for a norm's output that maps its largest possible value to the largest in 8 bits."""
    return float(LARGEST / width**0.5)


class Fp8Weight:
    """A weight in 8 bits with one scale: `forward`, to be multiplied with a norm's output, and `backward`, with a
    gradient. Each needs its own layout."""

    def __init__(self, matrix: Tensor, *, forward: bool = True, backward: bool = False) -> None:
        self._values = torch.empty_like(matrix, dtype=FP8) if forward else None
        self._transposed = (
            torch.empty_like(matrix.t(), dtype=FP8, memory_format=torch.contiguous_format) if backward else None
        )
        self._scale = torch.ones((), device=matrix.device)  # matrix = scale times values
        self._norm_scale = torch.full((), 1 / scale_after_norm(matrix.size(1)), device=matrix.device)

    @property
    def has_forward(self) -> bool:
        return self._values is not None

    @property
    def has_backward(self) -> bool:
        return self._transposed is not None

    def quantize(self, matrix: Tensor) -> None:
        """Store these values, scaled by their largest magnitude."""
        from nanopace.train.kernels.quantize import quantize  # it needs triton

        torch.linalg.vector_norm(matrix, torch.inf, dtype=torch.float32, out=self._scale)
        self._scale.clamp_(min=_SMALLEST).div_(LARGEST)
        quantize(matrix, self._scale, self._values, self._transposed)

    def product(self, y8: Tensor) -> Tensor:
        """y W^T in bfloat16, from the 8 bits that the norm wrote for y."""
        assert self._values is not None
        return scaled_mm(y8, self._values.t(), self._norm_scale, self._scale, fast=True)

    def input_gradient(self, d8: Tensor, scale: Tensor) -> Tensor:
        """scale d W in bfloat16. An 8-bit product needs its second factor transposed in memory."""
        assert self._transposed is not None
        return scaled_mm(d8, self._transposed.t(), scale, self._scale, fast=False)


def pick_products(shape: ModelShape, rows: int, device: torch.device) -> tuple[tuple[str, ...], str]:
    """The products that are faster in 8 bits for micro-batches of `rows` tokens, by measurement, and by how much."""
    speeds, before = _speeds(shape.n_embd, shape.vocab_size, min(rows, _ROWS), device)
    picked = tuple(name for name in PRODUCTS if speeds.get(name, 0) >= _WORTH_IT)
    left = [name for name in PRODUCTS if name not in picked]
    faster, slower = (Message.joined(", ", (_speed_of(name, speeds) for name in names)) for names in (picked, left))
    if not picked:
        said = Message("no product was at least 5% faster than in bf16: {slower}", slower=slower)
    elif left:
        said = Message("speed relative to bf16: {faster}; left in bf16: {slower}", faster=faster, slower=slower)
    else:
        said = Message("speed relative to bf16: {faster}", faster=faster)
    return picked, Message("{reason}, measured earlier", reason=said) if before else said


def products_by_rule(shape: ModelShape) -> tuple[tuple[str, ...], str]:
    """The products that were faster in 8 bits wherever we measured them; nothing depends on a clock."""
    if shape.n_embd < _WIDE:
        return (), Message("no product: with deterministic=True, only models at least {width} wide", width=_WIDE)
    picked = tuple(name for name in PRODUCTS if name != "head" or shape.vocab_size % 16 == 0)
    return picked, Message("{products}: by a rule, not by measurement", products=", ".join(picked))


def _speed_of(name: str, speeds: Mapping[str, float]) -> Message:
    if name not in speeds:
        return Message("{product} not possible", product=name)
    if not speeds[name]:
        return Message("{product} could not be tried", product=name)
    return Message("{product} ×{speed:.2f}", product=name, speed=speeds[name])


@cache  # measures only once, even if the result cannot be stored
def _speeds(width: int, vocabulary: int, rows: int, device: torch.device) -> tuple[dict[str, float], bool]:
    """Each product's speed relative to bfloat16, without the impossible ones, and whether it was known before. A failed
    trial gives 0, which is not stored: memory may have been full."""
    card = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    question = f"{card}, torch {torch.__version__}, {rows} x {width}, vocabulary of {vocabulary}"
    known = _read(recall(_TOPIC, question))
    if known is not None:
        return known, True
    found = _measured(width, vocabulary, rows, device)
    if all(found.values()):
        remember(_TOPIC, question, ", ".join(f"{name} {speed}" for name, speed in found.items()))
    return found, False


def _read(written: str | None) -> dict[str, float] | None:
    """The stored speeds; None if this is not what `_speeds` writes."""
    if written is None:
        return None
    speeds = {}
    for each in filter(None, written.split(", ")):
        name, _, speed = each.partition(" ")
        if name not in PRODUCTS or not re.fullmatch(r"[0-9]{1,3}\.[0-9]{1,2}", speed):
            return None
        speeds[name] = float(speed)
    return speeds


def _measured(width: int, vocabulary: int, rows: int, device: torch.device) -> dict[str, float]:
    sizes = {
        "qkv": (rows, 3 * width),
        "into": (rows, 4 * width),
        "head": (rows_at_a_time(rows, vocabulary), vocabulary),
    }
    fitting = {name: size for name, size in sizes.items() if size[1] % 16 == 0}  # other sizes are not supported
    return {name: round(_speed(some, width, out, device), 2) for name, (some, out) in fitting.items()}


def _speed(rows: int, width: int, out: int, device: torch.device) -> float:
    """Speed relative to bfloat16, including the norm's extra time to write 8 bits; 0 if it failed."""
    from nanopace.train.kernels.norm import layer_norm

    try:
        x, weight = (torch.randn((high, width), device=device).bfloat16() for high in (rows, out))
        x8, fp8_weight = torch.empty_like(x, dtype=FP8), Fp8Weight(weight)
        fp8_weight.quantize(weight)
        norm, norm_too, exact, rounded = (
            card_ms(do, device, calls=_CALLS)
            for do in (
                lambda: layer_norm(x),
                lambda: layer_norm(x, x8),
                lambda: torch.mm(x, weight.t()),
                lambda: fp8_weight.product(x8),
            )
        )
    except RuntimeError:
        return 0.0
    return exact / (rounded + max(0.0, norm_too - norm))
