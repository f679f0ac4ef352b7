"""The counts that nanoGPT prints."""

from __future__ import annotations

import pytest

from nanopace.hardware.flops import flops_per_token, parameters


@pytest.mark.parametrize(
    ("shape", "printed"),
    [((12, 768, 50304), "123.59M"), ((12, 384, 50304), "40.56M"), ((6, 384, 65), "10.65M")],
)
def test_the_number_of_parameters_that_nanogpt_prints(shape: tuple[int, int, int], printed: str) -> None:
    assert f"{parameters(*shape) / 1e6:.2f}M" == printed


def test_the_position_table_and_the_biases() -> None:
    decayed, not_decayed = 124_354_560, 19_200  # as nanoGPT prints them for 124M
    assert parameters(12, 768, 50304, 1024) == decayed + not_decayed
    assert parameters(12, 768, 50257, 1024, bias=True) == 124_439_808  # GPT-2 as released


@pytest.mark.parametrize(("n_embd", "whole", "causal"), [(768, 854.8, 798.15), (384, 300.0, 271.7)])
def test_flops_per_token(n_embd: int, whole: float, causal: float) -> None:
    count = parameters(12, n_embd, 50304)
    assert flops_per_token(count, 12, n_embd, 1024) / 1e6 == pytest.approx(whole, abs=0.05)
    assert flops_per_token(count, 12, n_embd, 1024, causal=True) / 1e6 == pytest.approx(causal, abs=0.05)
