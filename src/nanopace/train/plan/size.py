"""Refuses what this computer cannot train, by arithmetic, before a layer is built or a file is written.

It only refuses what is certain: weights, a step's tokens, or one activation of a micro-batch larger than all memory.
Whether the rest fits in a card shows when it is tried.
"""

from __future__ import annotations

import os

from nanopace.errors import ConfigError
from nanopace.hardware.flops import parameters
from nanopace.hardware.memory import GIB

_FLOAT, _TOKEN = 4, 8  # bytes


def check_size(
    *, n_layer: int, n_embd: int, vocab_size: int, block_size: int, batch_size: int, accumulation: int, on_cpu: bool
) -> None:
    memory = _memory_bytes()
    weights = _FLOAT * parameters(n_layer, n_embd, vocab_size, block_size)
    if weights > memory:
        raise ConfigError(
            "n_layer={n_layer}, n_embd={n_embd}, vocab_size={vocab_size}, block_size={block_size}: the weights "
            "take {needed:,.12g} GiB, but this computer has {memory:,.12g}",
            n_layer=n_layer,
            n_embd=n_embd,
            vocab_size=vocab_size,
            block_size=block_size,
            needed=_gib(weights),
            memory=_gib(memory),
        )
    micro_batch = _FLOAT * batch_size * block_size * n_embd if on_cpu else 0
    step = _TOKEN * accumulation * batch_size * (block_size + 1)
    if max(micro_batch, step) > memory:
        raise ConfigError(
            "batch_size={batch_size}, block_size={block_size}, gradient_accumulation_steps={accumulation}: a step"
            " takes more than {needed:,.12g} GiB, but this computer has {memory:,.12g}",
            batch_size=batch_size,
            block_size=block_size,
            accumulation=accumulation,
            needed=_gib(max(micro_batch, step)),
            memory=_gib(memory),
        )


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _gib(count: int) -> float:
    return count // GIB if count >= 10 * GIB else round(count / GIB, 1)
