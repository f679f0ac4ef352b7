"""What several cards change: the memory that the model takes on each, and what travels between them.

N weights, R ranks, k micro-batches a step and rank. Weights, gradients and averages are float32; FSDP sends weights in
bfloat16, which is what they are multiplied in.

    ddp    16 N on each card; per step every card sends 2 (R-1)/R * 4 N, in a ring, while the last backward pass runs
    fsdp   12 N/R of weights and averages, 4 N/R of gradients, and 4 N more while gradients gather over k > 1
           micro-batches; every micro-batch gathers the weights twice, 2 * 2 N (R-1)/R, and a step adds up its
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
    """What one card sends in a step. `micro_batches`: of this rank; `weight_bytes`: 4 where it computes in float32."""
    once = parameters * (ranks - 1) / ranks
    if parallel == "ddp":
        return int(2 * 4 * once)
    return int(2 * weight_bytes * once * micro_batches + 4 * once)
