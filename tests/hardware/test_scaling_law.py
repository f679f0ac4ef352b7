"""The expected loss, compared with losses of real runs and with what a loss can be at all."""

from __future__ import annotations

import math
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanopace.hardware.scaling_law import (
    CURVES,
    Curve,
    effective_parameters,
    expected_loss,
    perplexity,
    published,
    too_often,
    where_it_ends,
    worth_in_passes,
)
from nanopace.hardware.speed import Range

FLOOR = 1.69  # Hoffmann et al.'s entropy of text
GPT2 = 50_304


def loss(parameters: float, tokens: float, unique: float | None = None) -> Range:
    found = expected_loss(parameters, tokens, unique)
    assert found is not None
    return found


def test_the_published_fits() -> None:
    """Chinchilla itself, 70B parameters and 1.4T tokens: 1.94 by its own fit, as in the paper's figures."""
    hoffmann, besiroglu = published(70e9, 1.4e12)
    assert hoffmann == pytest.approx(1.69 + 0.0828 + 0.1631, abs=0.002)
    assert besiroglu == pytest.approx(hoffmann, abs=0.05)


@pytest.mark.parametrize("curve", CURVES, ids=lambda curve: f"{curve.parameters:.3g}-{curve.tokens:.3g}")
def test_real_runs_are_in_the_range(curve: Curve) -> None:
    found = loss(curve.parameters, curve.tokens, curve.unique)
    assert found.low <= curve.loss <= found.high
    assert found.high - found.low < 0.35


def test_perplexity_is_its_exponential() -> None:
    found = loss(124e6, 2.5e9)
    assert perplexity(found).low == math.exp(found.low)
    assert perplexity(found).high == math.exp(found.high)


# --- repeated text ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("passes", "worth"),
    [(0.5, 0.5), (1, 1), (2, 1.968), (4, 3.726), (16, 10.582), (40, 15.167), (62, 16.096), (1e9, 16.388)],
)
def test_passes_are_worth_what_muennighoff_found(passes: float, worth: float) -> None:
    """The formula in their appendix A, written as there, and by hand."""
    assert worth_in_passes(passes) == pytest.approx(worth, abs=0.002)
    if passes > 1:
        assert worth_in_passes(passes) == pytest.approx(1 + 15.387756 * (1 - math.exp(-(passes - 1) / 15.387756)))


def test_parameters_are_worth_as_much_as_there_is_text_for() -> None:
    assert effective_parameters(5e6, 1e8) == 5e6  # fewer than 0.051 a token
    assert effective_parameters(51e6, 1e8) == pytest.approx(5.1e6 * (1 + 5.309743 * (1 - math.exp(-9 / 5.309743))))
    assert effective_parameters(1e15, 1e8) == pytest.approx(6.309743 * 5.1e6)


def test_the_papers_own_pair_of_runs() -> None:
    """8.7B parameters and 178B tokens, fresh or four times 44B: they measured 0.5%, and their own fit gives 0.7%."""
    fresh, repeated = loss(8.7e9, 178e9), loss(8.7e9, 178e9, 44e9)
    assert 1.002 < repeated.expected / fresh.expected < 1.01


def test_forty_passes_are_the_last_that_teach() -> None:
    assert where_it_ends(124e6, 40e9, 1e9, GPT2) is None
    assert where_it_ends(124e6, 41e9, 1e9, GPT2) == "passes"
    assert (too_often(40.1), too_often(41)) == (False, True)  # a run has whole steps
    assert loss(124e6, 40e9, 1e9).expected > loss(124e6, 16e9).expected  # 15.2 passes of fresh text, by the law


# --- what a loss can be ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("vocab_size", [65, 256, 2048, 50_000, 50_257, 50_304, 100_277])
def test_a_grid_of_models_and_tokens_and_vocabularies(vocab_size: int) -> None:
    """Below ln(vocabulary) and above the entropy of text, or unknown; and unknown for every vocabulary but GPT-2's."""
    known = 0
    for parameters, tokens, share in product(
        (1e3, 1e5, 6e6, 1e7, 3e7, 124e6, 350e6, 1.5e9, 70e9, 1e12),
        (1e3, 1e6, 9e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e14, 1e16),
        (1e-6, 0.01, 0.1, 0.5, 1.0, 3.0),
    ):
        found = expected_loss(parameters, tokens, share * tokens, vocab_size)
        if found is not None:
            known += 1
            assert FLOOR < found.low < found.expected < found.high < math.log(vocab_size)
    assert known > 50 if vocab_size in (50_257, 50_304) else known == 0


PARAMETERS = st.floats(1e2, 1e13)
TOKENS = st.floats(1e2, 1e17)
MORE = st.floats(1.0, 100.0)


@given(PARAMETERS, TOKENS, st.floats(1e-5, 1.0), MORE, MORE)
def test_more_of_either_never_makes_it_worse(
    parameters: float, tokens: float, share: float, more_parameters: float, more_tokens: float
) -> None:
    """More parameters, more fresh instead of repeated text, more tokens of the same passes; always a possible loss."""
    found = expected_loss(parameters, tokens, share * tokens)
    larger = expected_loss(parameters * more_parameters, tokens, share * tokens)
    longer = expected_loss(parameters, tokens * more_tokens, share * tokens * more_tokens)
    fresher = expected_loss(parameters, tokens, tokens)
    again = expected_loss(parameters, tokens * more_tokens, share * tokens)
    for other in (larger, longer, fresher, again):
        if found is not None and other is not None:
            assert other.low <= found.low + 1e-12
            assert other.expected <= found.expected + 1e-12
            assert other.high <= found.high + 1e-12
    for each in (found, larger, longer, fresher, again):
        assert each is None or FLOOR < each.low <= each.expected <= each.high < math.log(50_257)


@given(st.floats(7e6, 1e10), st.floats(1e8, 3e10), MORE, MORE)
def test_and_where_it_is_known(parameters: float, tokens: float, more_parameters: float, more_tokens: float) -> None:
    """The same, only within the limits, where most of the cases above are not."""
    found = loss(parameters, tokens)
    assert loss(min(parameters * more_parameters, 7e10), tokens).expected <= found.expected + 1e-12
    assert loss(parameters, min(tokens * more_tokens, 1.4e12)).expected <= found.expected + 1e-12
    assert loss(parameters, tokens * min(more_tokens, 40), tokens).expected <= found.expected + 1e-12
