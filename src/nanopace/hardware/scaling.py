"""What changes with several cards: the memory for the model on each, and the traffic between them.

N weights, R ranks, k micro-batches per step and rank. Weights, gradients and averages are float32; FSDP sends weights
in bfloat16, the precision they are multiplied in.

    ddp    16 N on each card; per step, each card sends 2 (R-1)/R * 4 N in a ring, during the last backward pass
    fsdp   12 N/R for weights and averages, 4 N/R for gradients, and 4 N more while gradients accumulate over k > 1
           micro-batches; each micro-batch gathers the weights twice, 2 * 2 N (R-1)/R, and each step reduces its
           gradients once, 4 N (R-1)/R
"""

from __future__ import annotations


def model_bytes(parameters: int, ranks: int, parallel: str, micro_batches: int = 2) -> int:
    """Weights, gradients and averages on one card."""
    if parallel == "ddp":
        return 16 * parameters
    gathering = 4 * parameters if micro_batches > 1 else 0
    return 16 * parameters // ranks + gathering


def traffic_bytes(parameters: int, ranks: int, parallel: str, micro_batches: int = 1, *, weight_bytes: int = 2) -> int:
    """What one card sends per step. `micro_batches`: of this rank; `weight_bytes`: 4 if it computes in float32."""
    once = parameters * (ranks - 1) / ranks
    if parallel == "ddp":
        return int(2 * 4 * once)
    return int(2 * weight_bytes * once * micro_batches + 4 * once)
