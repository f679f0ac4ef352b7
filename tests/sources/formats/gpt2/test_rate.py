"""The tokens of a step, from its printed speed."""

from __future__ import annotations

import pytest

from nanopace.sources.formats.gpt2.rate import SmoothedStepTokens, StepTokens


@pytest.mark.parametrize(("tokens", "plausible"), [(524_288, 524_288), (12_000, 12_000), (128, None), (1001, None)])
def test_a_round_number_of_tokens(tokens: int, plausible: int | None) -> None:
    """Less than a sequence, or an odd number, means that the rate was computed wrongly."""
    rate = StepTokens()
    for ms in ("471.28", "471.95", "470.02"):
        rate.read(ms, f"{tokens / float(ms) * 1000:.2f}")
    assert rate.tokens == plausible


def test_one_row_is_no_evidence() -> None:
    rate = StepTokens()
    rate.read("471.28", "34764.89")
    assert rate.tokens is None


def test_units() -> None:
    rate = StepTokens()
    for seconds in (1.3147, 1.3164, 1.3158):
        rate.read(f"{seconds:.4f}", f"{524.288 / seconds:.2f}", thousands=1000.0, per_ms=1000.0)
    assert rate.tokens == 524_288


def smoothed(times: list[float], tokens: int, start: int = 0) -> list[tuple[int, str, str]]:
    """As llm.c smooths: (iteration, ms, tok/s)."""
    printed, average = [], 0.0
    for iteration, ms in enumerate(times, start):
        rate = own = tokens / ms * 1000
        if iteration:
            average = 0.95 * average + 0.05 * own
            rate = average / (1 - 0.95**iteration)
        printed.append((iteration, f"{ms:.2f}", f"{rate:.0f}"))
    return printed


@pytest.mark.parametrize(("start", "rows"), [(0, 2), (0, 6), (1, 6), (700, 6)])
def test_the_smoothing_of_llmc_is_undone(start: int, rows: int) -> None:
    """Also of a process that resumed, whose first figure is a twentieth of the truth."""
    times = [2391.52, 2397.11, 2650.4, 2396.87, 2404.9, 2411.3]
    tokens = SmoothedStepTokens()
    for row in smoothed(times[:rows], 458_752, start):
        tokens.read_smoothed(*row)
    assert tokens.tokens == 458_752
