"""How many sequences to process at once: in a micro-batch, if the user does not say, and in an evaluation."""

from __future__ import annotations

import torch

from nanopace.config import TrainConfig
from nanopace.errors import Message
from nanopace.hardware.memory import largest_fused_micro_batch, largest_micro_batch
from nanopace.train.models.gpt2 import ModelShape

_SATURATING = 1 << 16  # tokens in a batch: more do not make a card faster


def fitting_micro_batch(config: TrainConfig, kernels: str, memory_gb: float) -> int:
    """How many sequences fit with these kernels. Our own could save more memory, but that is for runs that would not
    fit at all, not for larger micro-batches."""
    if kernels == "fused":
        return largest_fused_micro_batch(config.size, memory_gb, recipe=config.recipe, fp8=config.fp8)
    return largest_micro_batch(config.size, memory_gb, compiled=kernels == "compiled")


def pick_eval_batch(shape: ModelShape, batch_size: int, device: torch.device) -> tuple[int, str]:
    """Sequences in an evaluation's batch, and why. A card is fastest when it is full, and the memory of training's
    activations is free meanwhile; on a CPU, larger batches only fall out of the caches."""
    if device.type == "cpu":
        return batch_size, Message("as in training; a CPU gains nothing from more")
    training = 36 * shape.n_embd * shape.n_layer + 8 * shape.vocab_size  # bytes per token: see hardware/memory.py
    evaluating = 40 * shape.n_embd + 6 * shape.vocab_size  # one layer's, and logits in two precisions
    fitting, enough = int(batch_size * training / evaluating), _SATURATING // shape.block_size
    if batch_size >= min(fitting, enough):
        return batch_size, Message("as in training")
    if enough <= fitting:
        return enough, Message("more would not make the card any faster")
    return fitting, Message("as many as fit where training keeps its activations")
