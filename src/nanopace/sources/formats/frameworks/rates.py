"""Printed tokens per second, which are rounded and of one GPU."""

from __future__ import annotations

from array import array

from nanopace.medians import upper_median
from nanopace.sources.build import RunBuilder

_MOST = 1e15  # more than a GPU of any year reaches


class PerGpuRate:
    """Detects printed tokens per second that look like the run's but are those of one GPU."""

    def __init__(self) -> None:
        self._rates = array("d")
        self._flops = array("d")

    @property
    def rows(self) -> int:
        return len(self._rates)

    def add(self, rate: float, tflops: float | None = None) -> None:
        if not 0 < rate < _MOST:
            return
        self._rates.append(rate)
        if tflops and 0 < tflops < _MOST:
            self._flops.append(tflops * 1e12 / rate)

    def tell(self, builder: RunBuilder, gpus: int | None) -> None:
        """Add the FLOPs per token, and a warning that the rate is not the run's, unless one GPU ran it."""
        if self._flops:
            builder.fact("flops_per_token", upper_median(self._flops), "inferred", "printed_tflops")
        if not self._rates or gpus == 1:
            return
        rate = upper_median(self._rates)
        builder.caveat(
            "rate_per_gpu", per_gpu=round(rate), gpus=gpus, total=None if gpus is None else round(rate * gpus)
        )
