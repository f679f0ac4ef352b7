"""The loss to expect, held against losses that real runs reached."""

from __future__ import annotations

import math

import pytest

from nanopace.hardware.scaling_law import CURVES, Curve, expected_loss, perplexity, published


def test_the_published_fits() -> None:
    """Chinchilla itself, 70B parameters and 1.4T tokens: 1.94 by its own fit, as the paper's figures have it."""
    hoffmann, besiroglu = published(70e9, 1.4e12)
    assert hoffmann == pytest.approx(1.69 + 0.0828 + 0.1631, abs=0.002)
    assert besiroglu == pytest.approx(hoffmann, abs=0.05)


@pytest.mark.parametrize("curve", CURVES, ids=lambda curve: f"{curve.parameters:.3g}-{curve.tokens:.3g}")
def test_real_runs_are_in_the_range(curve: Curve) -> None:
    found = expected_loss(curve.parameters, curve.tokens)
    assert found.low <= curve.loss <= found.high
    assert found.high - found.low < 0.35


def test_more_of_either_is_better() -> None:
    losses = [expected_loss(124e6, tokens).expected for tokens in (1e9, 3e9, 1e10, 3e10)]
    assert losses == sorted(losses, reverse=True)
    assert expected_loss(350e6, 1e10).expected < expected_loss(124e6, 1e10).expected


def test_perplexity_is_its_exponential() -> None:
    loss = expected_loss(124e6, 2.5e9)
    assert perplexity(loss).low == math.exp(loss.low)
    assert perplexity(loss).high == math.exp(loss.high)
