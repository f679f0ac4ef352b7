"""Where memory ends, predicted before anything is tried: for a card, or for the computer if there is none."""

from __future__ import annotations

import os
from collections.abc import Callable

from nanopace.config import TrainConfig
from nanopace.hardware.memory import GIB, climb, climb_with_host, fits, peak_bytes
from nanopace.knob_values import memory_bytes, memory_steps
from nanopace.ledger import RunEvent
from nanopace.memory_ladder import keeps_gradients, on_host

_OF_THE_CARD = 0.98
_OF_THE_COMPUTER = 0.5  # the rest is for other programs
_SINGLE = 2  # float32 keeps twice as much of each layer


def fits_in(event: RunEvent, config: TrainConfig) -> Callable[[int], bool]:
    """Returns whether a micro-batch of that many sequences fits. If the amount of memory is unknown, all of them do."""
    if event.gpu is None:
        most = _OF_THE_COMPUTER * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return lambda count: _SINGLE * peak_bytes(config.size, count, compiled=False) <= most
    memory = memory_bytes(config.memory_limit) or (event.gpu_memory_gb or 0) * GIB
    if not memory:
        return lambda _: True
    if str(event.choices.get("kernels", "")).startswith("fused"):
        return lambda count: _fits_fused(config, count, memory / GIB)
    return lambda count: peak_bytes(config.size, count, compiled=config.compile) <= _OF_THE_CARD * memory


def _fits_fused(config: TrainConfig, count: int, memory_gb: float) -> bool:
    """With the memory steps that a run would take."""
    steps = memory_steps(config.memory)
    if steps is None:
        steps = climb(config.size, count, memory_gb, recipe=config.recipe, fp8=config.fp8)
    elif on_host(steps):
        steps = (*steps, *climb_with_host(config.size, count, memory_gb, recipe=config.recipe, fp8=config.fp8))
    enough = fits(config.size, count, memory_gb, steps, recipe=config.recipe, fp8=config.fp8)
    return enough and (keeps_gradients(steps) or count == config.batch_size)
