"""Measures how fast matrix products really are here: `python -m nanopace.train.calibrate`, in its own process.

A data sheet's peak assumes a clock that a card may not hold under load, and matrices larger than a model's. So this
module times products: a large square one for a few seconds, while it reads the clocks and the reasons for throttling,
then the model's, each forward and in both backward forms. hardware/calibration.py reads the stored result.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median

import torch

from nanopace.hardware.calibration import TOPIC, question
from nanopace.ledger.events import GpuEvent
from nanopace.train.clock.sensors import Monitor
from nanopace.train.kernels.timing import seconds_of
from nanopace.train.plan.device import Machine, find_machine
from nanopace.train.warm_start import remember

_SQUARE = {"cuda": 8192, "cpu": 1024}
_SENSED_EVERY_S = 0.25
_FEWEST = 3

Size = tuple[int, int, int]  # rows, inner dimension, columns


@dataclass(frozen=True, slots=True)
class Work:
    """One kind of matrix product in the model's step, and how often it occurs."""

    name: str
    sizes: tuple[Size, ...]
    times: int


def products(n_layer: int, n_embd: int, vocab_size: int, rows: int) -> tuple[Work, ...]:
    """The matrix products of a GPT's linear layers."""
    layers = {
        "qkv": (n_embd, 3 * n_embd, n_layer),
        "out": (n_embd, n_embd, n_layer),
        "mlp_in": (n_embd, 4 * n_embd, n_layer),
        "mlp_out": (4 * n_embd, n_embd, n_layer),
        "head": (n_embd, vocab_size, 1),
    }
    return tuple(
        Work(name, ((rows, inner, outer), (rows, outer, inner), (inner, rows, outer)), times)
        for name, (inner, outer, times) in layers.items()
    )


def calibrate(
    machine: Machine, dtype: str, n_layer: int, n_embd: int, vocab_size: int, rows: int, seconds: float
) -> dict[str, object]:
    """Spend half of `seconds` on the square product, half on the model's."""
    begin, device, kind = time.monotonic(), machine.device, getattr(torch, dtype)
    sensed: list[GpuEvent] = []
    side = _SQUARE["cuda" if device.type == "cuda" else "cpu"]
    monitor = Monitor(sensed.append, lambda: 0, machine.uuid, _SENSED_EVERY_S) if device.type == "cuda" else None
    if monitor is not None:
        monitor.start()
    peak = _rate((side, side, side), device, kind, seconds / 2)
    if monitor is not None:
        monitor.stop()
    works = products(n_layer, n_embd, vocab_size, rows)
    share = seconds / 2 / sum(len(work.sizes) for work in works)
    rates, flops, took = {}, 0.0, 0.0
    for work in works:
        own = [(_flops(size), _flops(size) / _rate(size, device, kind, share)) for size in work.sizes]
        rates[work.name] = sum(each for each, _ in own) / sum(each for _, each in own) / 1e12
        flops += work.times * sum(each for each, _ in own)
        took += work.times * sum(each for _, each in own)
    clocks = [each.sm_mhz for each in sensed if each.sm_mhz is not None]
    reasons = {word for each in sensed if each.throttle for word in each.throttle.split(",")}
    return {
        "device": machine.name or device.type,
        "torch": torch.__version__,
        "dtype": dtype,
        "date": datetime.now().astimezone().isoformat(timespec="seconds"),
        "peak_tflops": peak / 1e12,
        "model_tflops": flops / took / 1e12,
        "products": rates,
        "seconds": time.monotonic() - begin,
        "sm_mhz": median(clocks) if clocks else None,
        "throttle": ",".join(sorted(reasons)) or None,
    }


def _flops(size: Size) -> float:
    return 2.0 * size[0] * size[1] * size[2]


def _rate(size: Size, device: torch.device, dtype: torch.dtype, seconds: float) -> float:
    """FLOP/s of one product, repeated for `seconds`."""
    rows, inner, columns = size
    left = torch.randn((rows, inner), device=device, dtype=dtype)
    right = torch.randn((inner, columns), device=device, dtype=dtype)
    out = torch.empty((rows, columns), device=device, dtype=dtype)

    def multiply() -> None:
        torch.mm(left, right, out=out)

    seconds_of(multiply, 1, device)  # lets the libraries load and choose an algorithm
    once = seconds_of(multiply, _FEWEST, device) / _FEWEST
    count = max(_FEWEST, int(seconds / once))
    return _flops(size) * count / seconds_of(multiply, count, device)


def main(arguments: Sequence[str]) -> None:
    """Measure and store. Arguments: device, dtype, layers, width, vocabulary, rows, seconds."""
    device, dtype, *numbers, seconds = arguments
    n_layer, n_embd, vocab_size, rows = map(int, numbers)
    machine = find_machine(device)
    with torch.inference_mode():
        found = calibrate(machine, dtype, n_layer, n_embd, vocab_size, rows, float(seconds))
    asked = question(str(found["device"]), torch.__version__, dtype, n_layer, n_embd, vocab_size, rows)
    remember(TOPIC, asked, json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
