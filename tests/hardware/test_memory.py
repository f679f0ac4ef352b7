"""What was measured on a card, and what follows from it."""

from __future__ import annotations

import pytest

from nanopace.hardware.memory import GIB, largest_micro_batch, peak_bytes

GPT2 = (12, 768, 50304, 1024)


@pytest.mark.parametrize(("sequences", "gib"), [(0, 2.25), (8, 5.6), (64, 29.0)])
def test_the_measured_peaks(sequences: int, gib: float) -> None:
    assert peak_bytes(*GPT2, sequences) / GIB == pytest.approx(gib, abs=0.1)


def test_the_measured_cost_of_a_sequence() -> None:
    assert (peak_bytes(*GPT2, 1) - peak_bytes(*GPT2, 0)) / GIB == pytest.approx(0.417, abs=0.001)


def test_twelve_gigabytes_hold_twentyone_sequences() -> None:
    assert largest_micro_batch(*GPT2, 12) == 21


def test_what_fits_is_below_the_memory_and_one_more_is_not() -> None:
    for memory_gb in (8, 16, 24, 80):
        fits = largest_micro_batch(*GPT2, memory_gb)
        assert peak_bytes(*GPT2, fits) <= 0.95 * memory_gb * GIB < peak_bytes(*GPT2, fits + 1)


def test_eager_holds_less_and_a_model_too_large_holds_nothing() -> None:
    assert largest_micro_batch(*GPT2, 12, compiled=False) < 21
    assert largest_micro_batch(48, 1600, 50304, 1024, 12) == 0


def test_a_single_micro_batch_keeps_no_gradients_beside_its_activations() -> None:
    assert peak_bytes(*GPT2, 8) - peak_bytes(*GPT2, 8, accumulation=1) == 4 * (124_354_560 + 19_200)
