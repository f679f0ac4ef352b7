"""The learning rate of each step: a linear rise, then a cosine decay, as in nanoGPT; or a trapezoid, with a linear fall
at the end."""

from __future__ import annotations

import math

from nanopace.config import TrainConfig
from nanopace.knob_values import ingredients


def learning_rate(config: TrainConfig, step: int) -> float:
    if not config.decay_lr:
        return config.learning_rate
    if "trapezoid" in ingredients(config.recipe, config.without):
        return config.min_lr + _trapezoid(config, step) * (config.learning_rate - config.min_lr)
    if step < config.warmup_iters:
        return config.learning_rate * (step + 1) / (config.warmup_iters + 1)
    if step > config.lr_decay_iters or config.lr_decay_iters <= config.warmup_iters:
        return config.min_lr
    progress = (step - config.warmup_iters) / (config.lr_decay_iters - config.warmup_iters)
    return config.min_lr + 0.5 * (1 + math.cos(math.pi * progress)) * (config.learning_rate - config.min_lr)


def _trapezoid(config: TrainConfig, step: int) -> float:
    """A factor from 0 to 1. It reaches 0 only after the last iteration, max_iters, so that one still learns."""
    up = (step + 1) / (config.warmup_iters + 1)
    steps = config.max_iters + 1
    falling = config.cooldown * steps
    down = (steps - step) / falling if falling else 1.0
    return max(0.0, min(1.0, up, down))
