"""Checks whether torch, the card and the compiler work: `python -m nanopace.train.doctor`, in its own process.

A broken driver can crash or hang the process that queries it, so `nanopace doctor` runs the checks here and survives.
Each check prints one line of JSON, a code and its numbers; cli/commands/doctor.py turns them into sentences.
"""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module

import torch

from nanopace.train.calibrate import calibrate
from nanopace.train.plan.device import GIB, Machine, find_machine

_SECONDS = 4.0  # of matrix products: after that, a card is about as warm and as slow as in training
_GPT2 = (12, 768, 50304, 8192)  # layers, width, vocabulary, rows of the model whose products are timed

Check = dict[str, object]


def checks() -> Iterator[Check]:
    """Yield each check as soon as it is done."""
    machine = find_machine(None)
    yield {"code": "torch", "version": torch.__version__, "cuda": torch.version.cuda}
    if machine.device.type == "cuda":
        yield from _of_the_card(machine)
    else:
        yield {"code": "no_card", "cuda": torch.version.cuda}
    yield _compiled(machine)


def _of_the_card(machine: Machine) -> Iterator[Check]:
    free, total = torch.cuda.mem_get_info(machine.device)
    capability = ".".join(map(str, torch.cuda.get_device_capability(machine.device)))
    about = {"name": machine.name, "capability": capability, "driver": _driver(), "cards": torch.cuda.device_count()}
    yield {"code": "card", **about, "memory_gb": total / GIB, "free_gb": free / GIB}
    dtype = "bfloat16" if torch.cuda.is_bf16_supported() else "float16"
    with torch.inference_mode():
        found = calibrate(machine, dtype, *_GPT2, _SECONDS)
    peak = machine.peak_flops(dtype)
    known = {"tflops": found["peak_tflops"], "sm_mhz": found["sm_mhz"], "throttle": found["throttle"]}
    yield {"code": "speed", "dtype": dtype, "peak_tflops": None if peak is None else peak / 1e12, **known}
    yield _kernels(machine)


def _driver() -> str | None:
    with suppress(Exception):
        nvml = import_module("pynvml")
        nvml.nvmlInit()
        version = nvml.nvmlSystemGetDriverVersion()
        return version.decode() if isinstance(version, bytes) else str(version)
    return None


def _kernels(machine: Machine) -> Check:
    """Compare one of our kernels with its plain twin."""

    def run() -> bool:
        from nanopace.train.kernels.relu2 import plain_relu2, relu2

        x = torch.randn(64, 256, device=machine.device, dtype=torch.bfloat16)
        return torch.allclose(relu2(x.clone()), plain_relu2(x), rtol=1e-2, atol=1e-2)  # the kernel works in place

    return _tried("kernels", run)


def _compiled(machine: Machine) -> Check:
    """Compare torch.compile with eager, forward and backward. It needs a C compiler on a CPU, Triton on a card."""

    def run() -> bool:
        layer = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.LayerNorm(64)).to(machine.device)
        x = torch.randn(32, 64, device=machine.device)
        gradients = []
        for model in (layer, torch.compile(layer)):
            layer.zero_grad()
            model(x).sin().sum().backward()
            gradients.append([parameter.grad.clone() for parameter in layer.parameters() if parameter.grad is not None])
        return all(torch.allclose(a, b, rtol=1e-2, atol=1e-2) for a, b in zip(*gradients, strict=True))

    return _tried("compile", run)


def _tried(code: str, run: Callable[[], bool]) -> Check:
    began = time.monotonic()
    try:
        agrees = run()
    except Exception as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        return {"code": f"{code}_fails", "reason": lines[0][:300]}
    if not agrees:
        return {"code": f"{code}_differs"}
    return {"code": code, "seconds": time.monotonic() - began}


if __name__ == "__main__":
    print(json.dumps({"code": "python", "version": platform.python_version()}), flush=True)
    for check in checks():
        print(json.dumps(check), flush=True)
