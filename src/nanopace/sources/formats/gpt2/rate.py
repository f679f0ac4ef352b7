"""The tokens of a step, derived from a printed rate and a printed time."""

from __future__ import annotations

from nanopace.sources.printed_numbers import RateBounds, half_unit

_FEWEST = 256  # tokens: forks that divide by milliseconds print a thousandth of their rate
_UNIT = 8  # a micro-batch is a round number of tokens


class StepTokens(RateBounds):
    """Takes both as printed, with any number of decimals."""

    def read(self, ms: str, rate: str, *, thousands: float = 1.0, per_ms: float = 1.0) -> None:
        """`thousands`: what a unit such as k stands for; `per_ms`: milliseconds per printed unit of time."""
        rate = rate.replace(",", "")
        self.bound(float(ms) * per_ms, half_unit(ms) * per_ms, float(rate) * thousands, 2 * half_unit(rate) * thousands)

    def bound(self, ms: float, ms_error: float, rate: float, rate_error: float) -> None:
        """Add a row. Both figures may be off by their error, in either direction."""
        low = (rate - rate_error) * (ms - ms_error) / 1000
        self.narrow(low, (rate + rate_error) * (ms + ms_error) / 1000)

    @property
    def tokens(self) -> int | None:
        """None also if no trainer would use that number."""
        tokens = super().tokens
        return tokens if tokens is not None and tokens >= _FEWEST and tokens % _UNIT == 0 else None


class SmoothedStepTokens(StepTokens):
    """llm.c's rate is a bias-corrected moving average with weight 0.95. Two consecutive rows reveal the single rate."""

    _PAST = 0.95

    def __init__(self) -> None:
        super().__init__()
        self._before: tuple[int, float] | None = None  # the previous row, and its average without the correction

    def read_smoothed(self, iteration: int, ms: str, rate: str) -> None:
        """The rate of iteration 0 stands alone; the average starts with iteration 1."""
        if not iteration:
            self.read(ms, rate)
            self._before = 0, 0.0
            return
        average = float(rate) * (1 - self._PAST**iteration)
        before, self._before = self._before, (iteration, average)
        if before is not None and before[0] == iteration - 1:
            own = (average - self._PAST * before[1]) / (1 - self._PAST)
            # Both are rounded to whole tokens, and computed in 32 bits.
            self.bound(float(ms), half_unit(ms), own, 1 / (1 - self._PAST) + 1e-5 * own)
