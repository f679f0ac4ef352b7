"""The learning rate of each step: up in a line, down along a cosine, as nanoGPT does it."""

from __future__ import annotations

import math

from nanopace.config import TrainConfig


def learning_rate(config: TrainConfig, step: int) -> float:
    if not config.decay_lr:
        return config.learning_rate
    if step < config.warmup_iters:
        return config.learning_rate * (step + 1) / (config.warmup_iters + 1)
    if step > config.lr_decay_iters or config.lr_decay_iters <= config.warmup_iters:
        return config.min_lr
    progress = (step - config.warmup_iters) / (config.lr_decay_iters - config.warmup_iters)
    return config.min_lr + 0.5 * (1 + math.cos(math.pi * progress)) * (config.learning_rate - config.min_lr)
