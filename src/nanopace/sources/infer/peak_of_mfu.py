"""The peak that the printed mfu is relative to: FLOPs of an iteration / (mfu x time)."""

from __future__ import annotations

from nanopace.run import Run
from nanopace.sources.infer.mfu_smoothing import printed_work

_EXACT_ENOUGH = 0.01  # beyond this uncertainty of the mfu, the peak would be a guess


def peak_of_mfu(run: Run, flops: float) -> float | None:
    """In TFLOP/s; `flops` are those of an iteration on one GPU."""
    work = printed_work(run)
    if work is None or work.uncertainty > _EXACT_ENOUGH:
        return None
    return float(f"{flops / (work.ms / 1000) / 1e12:.4g}")
