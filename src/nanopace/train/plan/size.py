"""Refuses what this computer cannot train, by arithmetic, before a layer is built or a file is written.

It only refuses what is certain: weights, a step's tokens, or one activation of a micro-batch larger than all memory.
Whether the rest fits in a card shows when it is tried.
"""

from __future__ import annotations

import os

from nanopace.config import TrainConfig
from nanopace.errors import ConfigError
from nanopace.hardware.flops import parameters
from nanopace.hardware.memory import GIB

_FLOAT, _TOKEN = 4, 8  # bytes


def check_size(config: TrainConfig, *, on_cpu: bool) -> None:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    weights = _FLOAT * parameters(*config.size)
    if weights > memory:
        raise ConfigError(
            "n_layer={n_layer}, n_embd={n_embd}, vocab_size={vocab_size}, block_size={block_size}: the weights "
            "take {needed:,.12g} GiB, but this computer has {memory:,.12g}",
            n_layer=config.n_layer,
            n_embd=config.n_embd,
            vocab_size=config.vocab_size,
            block_size=config.block_size,
            needed=_gib(weights),
            memory=_gib(memory),
        )
    micro_batch = _FLOAT * config.batch_size * config.block_size * config.n_embd if on_cpu else 0
    step = _TOKEN * config.gradient_accumulation_steps * config.batch_size * (config.block_size + 1)
    if max(micro_batch, step) > memory:
        raise ConfigError(
            "batch_size={batch_size}, block_size={block_size}, gradient_accumulation_steps={accumulation}: a step"
            " takes more than {needed:,.12g} GiB, but this computer has {memory:,.12g}",
            batch_size=config.batch_size,
            block_size=config.block_size,
            accumulation=config.gradient_accumulation_steps,
            needed=_gib(max(micro_batch, step)),
            memory=_gib(memory),
        )


def _gib(count: int) -> float:
    return count // GIB if count >= 10 * GIB else round(count / GIB, 1)
