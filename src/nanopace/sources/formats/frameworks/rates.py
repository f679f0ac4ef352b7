"""Tokens per second as they are printed: of one GPU, and rounded."""

from __future__ import annotations

from array import array

from nanopace.medians import upper_median
from nanopace.sources.build import RunBuilder

_MOST = 1e15  # that a GPU of any year may reach


class TokensOfStep:
    """The tokens of a step, by printed rates and times.

    Both are rounded, so that each row only gives bounds; those of all rows together are narrow.
    """

    def __init__(self) -> None:
        self._rows = 0
        self._low, self._high = 0.0, float("inf")

    def add(self, rate: float, ms: float, half_ms: float) -> None:
        """`half_ms`: how far off the time may be. The rate may be rounded down."""
        self._rows += 1
        self._low = max(self._low, (rate - 0.5) * (ms - half_ms) / 1000)
        self._high = min(self._high, (rate + 1) * (ms + half_ms) / 1000)

    @property
    def tokens(self) -> int | None:
        """The roundest number that agrees with every row; None where there is none, or it is not precise."""
        low, high = self._low, self._high
        if self._rows < 2 or not 0 < low <= high <= 1.01 * low:
            return None
        unit = 1 << int(high).bit_length()
        while unit > 1 and high // unit * unit < low:
            unit >>= 1
        found = int(high // unit * unit)
        return found if found >= low else None


class PerGpuRate:
    """Printed tokens per second that are those of one GPU, though they look like those of the run."""

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
        """What a token costs, and that the rate is not the run's, unless one GPU ran it."""
        if self._flops:
            builder.fact("flops_per_token", upper_median(self._flops), "inferred", "printed_tflops")
        if not self._rates or gpus == 1:
            return
        rate = upper_median(self._rates)
        builder.caveat(
            "rate_per_gpu", per_gpu=round(rate), gpus=gpus, total=None if gpus is None else round(rate * gpus)
        )
