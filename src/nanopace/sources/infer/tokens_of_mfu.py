"""Tokens per iteration from the printed mfu: mfu x peak x time / FLOPs per token."""

from __future__ import annotations

from nanopace.run import Run
from nanopace.sources.infer.mfu_smoothing import printed_work

_EXACT_ENOUGH = 0.03  # beyond this uncertainty of the mfu, several numbers of GPUs or tokens would fit


def tokens_of_mfu(run: Run, tokens_per_s: float) -> float | None:
    """Tokens per iteration and GPU; `tokens_per_s` is the rate at an mfu of 1."""
    work = printed_work(run)
    if work is None or work.uncertainty > _EXACT_ENOUGH:
        return None
    return work.ms / 1000 * tokens_per_s
