"""How much is computed again, or remembered less exactly, so that a run fits into memory: as little as it takes.

The steps and what each keeps are in hardware/memory.py. Before anything is built the peak is predicted; should that be
wrong, the stepper finds memory full, climbs on, and only then takes smaller micro-batches.
"""

from __future__ import annotations

from nanopace.config import TrainConfig, memory_steps
from nanopace.hardware.memory import GIB, climb, fused_peak_bytes
from nanopace.train.device import Machine, pick_kernels
from nanopace.train.model import ModelShape


def pick_steps(config: TrainConfig, shape: ModelShape, machine: Machine, ranks: int) -> tuple[tuple[str, ...], str]:
    """The steps of the ladder, and why."""
    if pick_kernels(config, shape, machine.device, ranks)[0] != "fused":
        return (), "all is kept: only our own kernels can do without"
    asked = memory_steps(config.memory)
    if asked is not None:
        return asked, f"{', '.join(asked) or 'all is kept'}: asked for"
    if machine.memory_gb is None:
        return (), "all is kept: how much memory there is, is unknown"
    size = (shape.n_layer, shape.n_embd, shape.vocab_size, shape.block_size, config.batch_size)
    steps = climb(*size, machine.memory_gb, recipe=shape.recipe, fp8=config.fp8)
    peak = fused_peak_bytes(*size, steps, recipe=shape.recipe, fp8=config.fp8)
    need = f"{peak / GIB:.1f} of {machine.memory_gb:.1f} GiB"
    if not steps:
        return steps, f"all is kept: it takes about {need}"
    before = fused_peak_bytes(*size, steps[:-1], recipe=shape.recipe, fp8=config.fp8) / GIB
    return steps, f"{', '.join(steps)}: about {need}, and {before:.1f} without {steps[-1]}"
